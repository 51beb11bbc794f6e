/* Computes a layer with nothing underneath: prints a checksum and the stack that was used on the serial port. */
#include <stddef.h>
#include <stdint.h>

#include "sharpen.h"

/* All that compilers may ask of a C library. */
void *memset(void *to, int value, size_t bytes) {
    for (unsigned char *p = to; bytes-- > 0;) *p++ = (unsigned char)value;
    return to;
}
void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    unsigned char *p = to;
    for (const unsigned char *q = from; bytes-- > 0;) *p++ = *q++;
    return to;
}

static void print(const char *text) {
    volatile uint32_t *const uart = (volatile uint32_t *)0x09000000;
    while (*text) *uart = (uint32_t)*text++;
}

static void print_number(long value) {
    char digits[24], *p = digits + sizeof(digits) - 1;
    const unsigned long magnitude = value < 0 ? 0ul - (unsigned long)value : (unsigned long)value;
    *p = 0;
    for (unsigned long rest = magnitude; rest > 0 || !*p; rest /= 10) *--p = (char)('0' + rest % 10);
    if (value < 0) *--p = '-';
    print(p);
}

/* The layer's tensors, sized as in layers.toml. */
static float x[16 * 16 * 8], w[16 * 8 * 3 * 3], bias[16], y[16 * 16 * 16];

static _Alignas(KILN_ALIGNMENT) unsigned char packed[SHARPEN_IMAGE_PACKED_BYTES];
static _Alignas(KILN_ALIGNMENT) unsigned char workspace[SHARPEN_IMAGE_WORKSPACE_BYTES + 1];

/* Small whole numbers: their sums are exact, so that the checksum is the same on every processor. */
static void fill(float *values, size_t count, size_t step) {
    for (size_t i = 0; i < count; ++i) values[i] = (float)(i * step % 7) - 3;
}

extern unsigned char stack_bottom[], stack_top[]; /* virt.ld */
enum { stack_mark = 0xa5 };

/* Marks the stack below the caller's frame, or counts what is no longer marked. */
static void mark_stack(void) {
    unsigned char *const end = (unsigned char *)__builtin_frame_address(0) - 256;
    for (volatile unsigned char *p = stack_bottom; p < end; ++p) *p = stack_mark;
}
static long used_stack(void) {
    const unsigned char *p = stack_bottom;
    while (p < stack_top && *p == stack_mark) ++p;
    return stack_top - p;
}

int main(void) {
    mark_stack();
    fill(x, sizeof(x) / sizeof(*x), 3);
    fill(w, sizeof(w) / sizeof(*w), 5);
    fill(bias, sizeof(bias) / sizeof(*bias), 2);

    int code = sharpen_image_pack(w, packed);
    const sharpen_image_args args = {.x = x, .bias = bias, .packed_weights = packed, .y = y, .workspace = workspace};
    if (code == kiln_ok) code = sharpen_image(&args);

    long checksum = 0;
    for (size_t i = 0; i < sizeof(y) / sizeof(*y); ++i) checksum += (long)y[i] * (long)(1 + i % 3);
    print("code: ");
    print_number(code);
    print("\nchecksum: ");
    print_number(checksum);
    print("\nbytes of stack: ");
    print_number(used_stack());
    print("\n");
    return 0;
}
