/* Calls a layer of tests/cases/small.toml by name, from C. Exit status: 0, or the number of the check that failed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum { size = 20, in_channels = 32, out_channels = 48, taps = 9 };

static float x[size * size * in_channels], w[out_channels * in_channels * taps], bias[out_channels];
static float y[size * size * out_channels];

static int differs(int row, int column, float expected) {
    return fabsf(y[(row * size + column) * out_channels + 7] - expected) > 1e-3f;
}

int main(void) {
    if (kiln_last_message()[0] != '\0') return 15;
    for (int i = 0; i < size * size * in_channels; i++) x[i] = 1;
    for (int i = 0; i < out_channels * in_channels * taps; i++) w[i] = 1;
    for (int i = 0; i < out_channels; i++) bias[i] = 0.5f;
    void *packed =
        aligned_alloc(KILN_ALIGNMENT, NET_CONV_PACKED_BYTES / KILN_ALIGNMENT * KILN_ALIGNMENT + KILN_ALIGNMENT);
    void *workspace =
        aligned_alloc(KILN_ALIGNMENT, NET_CONV_WORKSPACE_BYTES / KILN_ALIGNMENT * KILN_ALIGNMENT + KILN_ALIGNMENT);
    if (net_conv_pack(w, packed) != kiln_ok) return 1;

    net_conv_args args = {0};
    args.x = x;
    args.bias = bias;
    args.packed_weights = packed;
    args.y = y;
    args.workspace = workspace;
    if (net_conv(&args) != kiln_ok) return 2;
    if (differs(10, 10, in_channels * 9 + 0.5f)) return 3; /* inside */
    if (differs(0, 10, in_channels * 6 + 0.5f)) return 4;  /* at an edge: three taps in the padding */
    if (differs(19, 19, in_channels * 4 + 0.5f)) return 5; /* in a corner */

    args.bias = NULL;
    if (net_conv(&args) != kiln_invalid_argument) return 6;
    if (strcmp(kiln_last_message(), "net_conv: bias is null") != 0) return 7;
    if (net_conv(NULL) != kiln_invalid_argument) return 8;
    if (strcmp(kiln_last_message(), "net_conv: args is null") != 0) return 9;
    args.bias = bias;
    args.packed_weights = (char *)packed + 4;
    if (net_conv(&args) != kiln_invalid_argument) return 10;
    if (strcmp(kiln_last_message(), "net_conv: packed_weights is not a multiple of 64") != 0) return 11;
    if (net_conv_pack(NULL, packed) != kiln_invalid_argument) return 12;
    if (strcmp(kiln_last_message(), "net_conv_pack: w is null") != 0) return 13;
    if (strncmp(kiln_status_text(kiln_invalid_argument), "invalid argument: ", 18) != 0) return 14;
    free(packed);
    free(workspace);
    return 0;
}
