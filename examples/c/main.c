/* Computes a layer from C. */
#include <stdio.h>

#include "upscale.h"

/* The layer's tensors, sized as in layers.toml. */
static float x[4 * 16 * 16], w[4 * 1 * 4 * 4], y[4 * 32 * 32];

/* The memory a kernel wants besides: nothing is allocated when it runs. */
static _Alignas(KILN_ALIGNMENT) unsigned char packed[UPSCALE_TWICE_PACKED_BYTES];
static _Alignas(KILN_ALIGNMENT) unsigned char workspace[UPSCALE_TWICE_WORKSPACE_BYTES + 1];

/* Small whole numbers: their sums are exact, so that the checksum is the same on every processor. */
static void fill(float *values, size_t count, size_t step) {
    for (size_t i = 0; i < count; ++i) values[i] = (float)(i * step % 7) - 3;
}

int main(void) {
    fill(x, sizeof(x) / sizeof(*x), 3);
    fill(w, sizeof(w) / sizeof(*w), 5);

    int code = upscale_twice_pack(w, packed);
    const upscale_twice_args args = {.x = x, .packed_weights = packed, .y = y, .workspace = workspace};
    if (code == kiln_ok) code = upscale_twice(&args);
    if (code != kiln_ok) {
        fprintf(stderr, "upscale_twice returned %d\n", code);
        return 1;
    }

    double checksum = 0;
    for (size_t i = 0; i < sizeof(y) / sizeof(*y); ++i) checksum += y[i] * (double)(1 + i % 3);
    const kiln_kernel *kernel = &upscale_library()->kernels[0];
    printf("first kernel: %s, for %s\nchecksum: %.0f\n", kernel->algorithm, kernel->target, checksum);
    return 0;
}
