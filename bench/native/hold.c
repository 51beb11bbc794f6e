/* Takes AMX, or AVX-512 and all that came with or after it too, from what CPUID says, for this process from now on.
 *
 * Libraries choose their kernels by CPUID, few of them with a switch to choose less. Where the processor and Linux can
 * make the instruction fault, the handler of that fault answers in its place. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef ARCH_CPUID
#define ARCH_GET_CPUID 0x1011
#define ARCH_SET_CPUID 0x1012
#endif

static struct sigaction previous;
static int to_avx2;

static long set_cpuid(unsigned long enabled) {
    return syscall(SYS_arch_prctl, ARCH_SET_CPUID, enabled);
}

static void mask(uint32_t leaf, uint32_t subleaf, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) {
    if (leaf == 7 && subleaf == 0) {
        *d &= ~(1u << 22 | 1u << 24 | 1u << 25); /* AMX BF16, TILE, INT8 */
        if (!to_avx2) return;
        *b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31); /* F .. VL */
        *c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14); /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
        *d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 23);             /* 4VNNIW, 4FMAPS, VP2INTERSECT, FP16 */
    } else if (leaf == 7 && subleaf == 1) {
        *a &= ~(1u << 21); /* AMX-FP16 */
        *d &= ~(1u << 8);  /* AMX-COMPLEX */
        if (!to_avx2) return;
        *a &= ~(1u << 4 | 1u << 5 | 1u << 23);            /* AVX-VNNI, AVX512-BF16, AVX-IFMA */
        *d &= ~(1u << 4 | 1u << 5 | 1u << 10 | 1u << 19); /* AVX-VNNI-INT8, NE-CONVERT, VNNI-INT16, AVX10 */
    } else if (leaf == 0xd && subleaf == 0) {
        *a &= to_avx2 ? 7u : 0xffu; /* the state that the system saves: x87, SSE, AVX; AVX-512 */
    } else if (leaf == 0x1d || leaf == 0x1e || (to_avx2 && leaf == 0x24)) {
        *a = *b = *c = *d = 0; /* AMX; AVX10 */
    }
}

static void handle(int signal_number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];
    if (info->si_code != SI_KERNEL || at[0] != 0x0f ||
        at[1] != 0xa2) { /* a fault of another kind: as if never caught */
        sigaction(signal_number, &previous, NULL);
        return;
    }
    uint32_t a = (uint32_t)registers[REG_RAX], c = (uint32_t)registers[REG_RCX], b, d;
    const uint32_t leaf = a, subleaf = c;
    set_cpuid(1);
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    set_cpuid(0);
    mask(leaf, subleaf, &a, &b, &c, &d);
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

/* 0 where it worked. Threads and forks inherit it, new programs do not. */
int kiln_bench_hold(int avx2) {
    to_avx2 = avx2;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(SIGSEGV, &action, &previous) != 0) return 1;
    return set_cpuid(0) == 0 ? 0 : 1;
}
