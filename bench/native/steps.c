/* What a network that was compiled with --traced asks and tells: each step runs `repeats` times, and each time is noted
   when it begins, and when the last step is done. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <time.h>

static double *times;
static int32_t room, count, repeats = 1;

/* Where the seconds of the next call go, and how often each step is to run. */
void kiln_bench_trace(double *into, int32_t most, int32_t each) {
    times = into;
    room = most;
    repeats = each;
    count = 0;
}

/* How many were noted. */
int32_t kiln_bench_noted(void) {
    return count;
}

int32_t kiln_network_repeats(int32_t step) {
    (void)step;
    return repeats;
}

int32_t kiln_network_step(int32_t step) {
    struct timespec now;
    (void)step;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (count < room) times[count++] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return 0;
}
