/* Reads digits in pictures as a camera takes them, by a whole network: on Linux, and on a processor with nothing
 * underneath. */
#include "console.h"
#include "drawings.h"
#include "reader.h"

enum { height = 240, width = 320, cell = height / 8, left = (width - height) / 2 };

static uint8_t picture[height * width];
static _Alignas(KILN_ALIGNMENT) unsigned char arena[READER_ARENA_BYTES];

/* A drawing in light that falls off to the right, with the noise of a sensor. */
static void take_picture(const unsigned char *drawing) {
    static uint32_t noise = 1;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            const int inside = x >= left && x < width - left;
            const int ink = inside ? drawing[y / cell * 8 + (x - left) / cell] : 0;
            noise = noise * 1664525u + 1013904223u;
            picture[y * width + x] = (uint8_t)(20 + ink * (210 - 60 * x / width) / 16 + (int)(noise >> 28));
        }
}

int main(void) {
    int right = 0;
    for (int digit = 0; digit < 10; ++digit) {
        take_picture(drawings[digit]);
        float probability[10];
        int64_t label = -1;
        const reader_args args = {.picture = picture, .probability = probability, .label = &label, .arena = arena};
        if (reader_run(&args) != kiln_ok) {
            say(kiln_last_message());
            say("\n");
            return 1;
        }
        say("a picture of ");
        say_number(digit);
        say(": seen ");
        say_number((long)label);
        say(", ");
        say_number((long)(probability[label] * 100));
        say(" %\n");
        right += label == digit;
    }
    say("right: ");
    say_number(right);
    say(" of 10\n");
    return 0;
}
