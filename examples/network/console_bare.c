/* The serial port of qemu's virt machine, and all that compilers may ask of a C library. */
#include <stddef.h>
#include <stdint.h>

#include "console.h"

void *memset(void *to, int value, size_t bytes) {
    for (unsigned char *p = to; bytes-- > 0;) *p++ = (unsigned char)value;
    return to;
}
void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    unsigned char *p = to;
    for (const unsigned char *q = from; bytes-- > 0;) *p++ = *q++;
    return to;
}

void say(const char *text) {
    volatile uint32_t *const uart = (volatile uint32_t *)0x09000000;
    while (*text) *uart = (uint32_t)*text++;
}

void say_number(long value) {
    char digits[24], *p = digits + sizeof(digits) - 1;
    const unsigned long magnitude = value < 0 ? 0ul - (unsigned long)value : (unsigned long)value;
    *p = 0;
    for (unsigned long rest = magnitude; rest > 0 || !*p; rest /= 10) *--p = (char)('0' + rest % 10);
    if (value < 0) *--p = '-';
    say(p);
}
