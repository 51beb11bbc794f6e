/* Calls a network of several sizes as any program would: PROGRAM WIDTH BATCH LINE.bin OUT.bin. What is no size of its
 * is refused with words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

static _Alignas(KILN_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES];
static float line[2 * 3 * 8 * 48], places[2 * 24 * 300];

static int refused(const net_args *args, const char *why) {
    const int32_t code = net_run(args);
    if (code == kiln_invalid_argument && strcmp(kiln_last_message(), why) == 0) return 1;
    fprintf(stderr, "code %d, \"%s\" in place of \"%s\"\n", (int)code, kiln_last_message(), why);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5) return 1;
    net_args args = {.width = atoi(argv[1]), .batch = atoi(argv[2]), .line = line, .OUTPUT = places, .arena = arena};
    const kiln_network *network = net_network(args.width, args.batch);
    if (network == NULL || net_network(17, 1) != NULL || net_network_at(5) == NULL || net_network_at(6) != NULL)
        return 2;
    if (network->arena_bytes != net_arena_bytes(args.width, args.batch) || net_arena_bytes(16, 3) != 0 ||
        net_arena_bytes(args.width, args.batch) > NET_ARENA_BYTES ||
        net_arena_bytes_threads(args.width, args.batch, 4) > NET_ARENA_BYTES_THREADS(4))
        return 3;

    FILE *file = fopen(argv[3], "rb");
    if (!file || fread(line, 1, (size_t)network->inputs[0].bytes, file) != (size_t)network->inputs[0].bytes) return 4;
    fclose(file);
    if (net_run(&args) != kiln_ok) return 5;
    file = fopen(argv[4], "wb");
    if (!file || fwrite(places, 1, (size_t)network->outputs[0].bytes, file) != (size_t)network->outputs[0].bytes ||
        fclose(file) != 0)
        return 6;

    net_args wrong = args;
    wrong.width = 200;
    if (!refused(&wrong, "net_run: \"width\" must be 16, 32 or 48, not 200")) return 7;
    wrong = args;
    wrong.batch = -1;
    if (!refused(&wrong, "net_run: \"batch\" must be 1 or 2, not -1")) return 8;
    wrong = args;
    wrong.arena = NULL;
    if (!refused(&wrong, "net_run: arena is null") || !refused(NULL, "net_run: args is null")) return 9;
    return 0;
}
