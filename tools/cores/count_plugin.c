/* A plugin for qemu-user: how often the instructions of some address ranges ran, by mnemonic.
 *
 *     cc -shared -fPIC -O2 count_plugin.c -o libcount.so
 *     qemu-aarch64 -plugin ./libcount.so,ranges=FILE,out=FILE PROGRAM
 *
 * FILE of ranges: a line each of "name begin end", in hexadecimal. A line of the answer: "name first MNEMONIC count",
 * where `first` is how often the range's first instruction ran. Its declarations are its own: distributions leave out
 * qemu-plugin.h. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int op, void *, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { most_ranges = 4096, most_mnemonics = 128, length = 24 };

struct range {
    char name[256];
    uint64_t begin, end, first;
    struct {
        char mnemonic[length];
        uint64_t count;
    } *counts;
};
static struct range ranges[most_ranges];
static int range_count;
static char out[1024];

static struct range *range_of(uint64_t address) {
    for (int i = 0; i < range_count; i++)
        if (address >= ranges[i].begin && address < ranges[i].end) return &ranges[i];
    return NULL;
}

/* Where a range counts a mnemonic; the last row is what all that find no room share. */
static uint64_t *counter(struct range *range, const char *mnemonic) {
    int i = 0;
    while (i < most_mnemonics - 1 && range->counts[i].mnemonic[0] && strcmp(range->counts[i].mnemonic, mnemonic) != 0)
        i++;
    if (!range->counts[i].mnemonic[0]) strcpy(range->counts[i].mnemonic, i < most_mnemonics - 1 ? mnemonic : "others");
    return &range->counts[i].count;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t address = qemu_plugin_insn_vaddr(instruction);
        struct range *range = range_of(address);
        if (!range) continue;
        char *text = qemu_plugin_insn_disas(instruction), mnemonic[length] = "";
        const size_t end = strcspn(text, " \t");
        memcpy(mnemonic, text, end < length ? end : length - 1);
        free(text);
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, counter(range, mnemonic), 1);
        if (address == range->begin) qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, &range->first, 1);
    }
}

/* The harness's kernels run in a process of their own: the other one counts nothing, and leaves the answer alone. */
static void finish(qemu_plugin_id_t id, void *data) {
    (void)id, (void)data;
    int counted = 0;
    for (int i = 0; i < range_count; i++) counted += ranges[i].counts[0].mnemonic[0] != 0;
    if (counted == 0) return;
    FILE *file = fopen(out, "w");
    if (!file) abort();
    for (int i = 0; i < range_count; i++)
        for (int k = 0; k < most_mnemonics && ranges[i].counts[k].mnemonic[0]; k++)
            fprintf(file, "%s %llu %s %llu\n", ranges[i].name, (unsigned long long)ranges[i].first,
                    ranges[i].counts[k].mnemonic, (unsigned long long)ranges[i].counts[k].count);
    fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                                               char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) snprintf(out, sizeof(out), "%s", argv[i] + 4);
        if (strncmp(argv[i], "ranges=", 7) != 0) continue;
        FILE *file = fopen(argv[i] + 7, "r");
        if (!file) return 1;
        struct range *r = ranges;
        unsigned long long begin, end;
        while (range_count < most_ranges && fscanf(file, "%255s %llx %llx", r->name, &begin, &end) == 3) {
            r->begin = begin;
            r->end = end;
            r->counts = calloc(most_mnemonics, sizeof(*r->counts));
            r++, range_count++;
        }
        fclose(file);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
