/* Calls a network as any program would: it reads an image and writes classes; wrong calls are refused with words. */
#include <stdio.h>
#include <string.h>

#include "net.h"

static _Alignas(KILN_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES + KILN_ALIGNMENT];
static _Alignas(KILN_ALIGNMENT) unsigned char threaded_arena[NET_ARENA_BYTES_THREADS(4)];
static float image[3 * 16 * 16], sizes[64 * 2 + 1], classes[64 * 4], again[64 * 4], summary[5];

static int32_t one_by_one(void *context, kiln_task task, void *closure, int32_t count) {
    (void)context;
    for (int32_t i = count; i-- > 0;) {
        const int32_t code = task(closure, i, i % 4);
        if (code != kiln_ok) return code;
    }
    return kiln_ok;
}

static int refused(const net_args *args, const char *why) {
    const int32_t code = net_run(args);
    if (code == kiln_invalid_argument && strstr(kiln_last_message(), why) != NULL) return 1;
    fprintf(stderr, "code %d, \"%s\" in place of \"%s\"\n", (int)code, kiln_last_message(), why);
    return 0;
}

int main(int argc, char **argv) {
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!file || fread(image, 1, sizeof image, file) != sizeof image) return 1;
    fclose(file);
    const net_args args = {.image = image, .sizes = sizes, .classes = classes, .summary = summary, .arena = arena};
    net_args wrong = args;
    if (net_run(&args) != kiln_ok) return 2;

    wrong.arena = arena + 4;
    if (!refused(&wrong, "arena is not a multiple of 64")) return 3;
    wrong.arena = NULL;
    if (!refused(&wrong, "arena is null")) return 4;
    wrong = args;
    wrong.image = NULL;
    if (!refused(&wrong, "image is null") || !refused(NULL, "args is null")) return 5;
    wrong = args;
    wrong.sizes = (float *)((char *)sizes + 2);
    if (!refused(&wrong, "sizes is not a multiple of 4")) return 6;

    /* Four workers, in another arena: the same numbers. */
    const kiln_threads threads = {NULL, 4, one_by_one};
    net_args threaded = args;
    threaded.arena = threaded_arena;
    threaded.threads = &threads;
    threaded.classes = again;
    if (net_run(&threaded) != kiln_ok || memcmp(classes, again, sizeof classes) != 0) return 7;

    const kiln_network *network = net_network();
    if (network->input_count != 1 || network->output_count != 3 || strcmp(network->outputs[1].name, "classes") != 0 ||
        network->outputs[1].bytes != (int64_t)sizeof classes || network->arena_bytes != NET_ARENA_BYTES)
        return 8;
    file = fopen(argv[2], "wb");
    return !file || fwrite(classes, 1, sizeof classes, file) != sizeof classes || fclose(file) != 0;
}
