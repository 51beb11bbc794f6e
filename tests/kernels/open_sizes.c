/* A layer of any image size with embedded weights, from C: its memory is asked for, then it runs on two sizes. */
#include <stdio.h>
#include <stdlib.h>

#include "net.h"

/* Ones convolved with 3x3 ones over 8 channels, zeros around: 8 times the taps inside the image. */
static float expected(int row, int column, int rows, int columns) {
    const int height = 3 - (row == 0) - (row == rows - 1), width = 3 - (column == 0) - (column == columns - 1);
    return 8.0f * (float)height * (float)width;
}

static int check(int rows, int columns) {
    const int32_t sizes[] = {rows, columns, rows, columns};
    kiln_kernel_bytes bytes;
    if (net_any_bytes(sizes, &bytes) != kiln_ok) return 1;
    const size_t elements = (size_t)rows * (size_t)columns * 8;
    float *x = malloc(elements * sizeof *x), *y = malloc(elements * sizeof *y);
    void *workspace = aligned_alloc(KILN_ALIGNMENT, (size_t)bytes.workspace + KILN_ALIGNMENT);
    for (size_t i = 0; i < elements; ++i) x[i] = 1;
    const net_any_args args = {.x = x, .y = y, .sizes = sizes, .workspace = workspace};
    int wrong = net_any(&args) != kiln_ok;
    for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
            const float got = y[((size_t)row * (size_t)columns + (size_t)column) * 8 + 3];
            const float error = got - expected(row, column, rows, columns);
            wrong += !(error < 1e-3f && error > -1e-3f); /* NaN is wrong */
        }
    }
    if (wrong) printf("%d x %d: %d wrong\n", rows, columns, wrong);
    free(x);
    free(y);
    free(workspace);
    return wrong;
}

int main(void) {
    const int32_t missing = net_any(&(net_any_args){0});
    if (missing != kiln_invalid_argument) return 2;
    return check(5, 4) + check(31, 47) > 0;
}
