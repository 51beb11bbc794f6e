#include <stdio.h>

#include "console.h"

void say(const char *text) {
    fputs(text, stdout);
}
void say_number(long value) {
    printf("%ld", value);
}
