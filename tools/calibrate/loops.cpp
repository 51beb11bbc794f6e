#include "calibrate/loops.h"

#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/cpu.h"
#include "layers/spec.h"

namespace kiln::tools {
namespace {

constexpr int chains = 12;      // that hide any latency, of the registers that every target has
constexpr int clock_adds = 24;  // in a pass of the loop that tells the clock
constexpr int streamed = 8;     // vectors in a pass of a stream

// What one figure repeats, once for each of `chains` registers. In the text {n} is the register's number and {o} its
// bytes' offset from the data; {v} is what x86 calls a register of the width, {h} one of half of it.
struct Repeated {
    const char *figure;
    std::vector<const char *> lines;
    uint64_t features = 0;  // one of which the target has; 0: every target
    int most_bits = 512;
};

// How an architecture's loops are written.
struct Family {
    std::string_view architecture;
    std::vector<int> widths;
    const char *directives;            // of the assembler
    std::vector<const char *> before;  // sets two registers to .5: whatever sums begin with, they soon are 1
    std::vector<const char *> control, end;
    const char *clock_add;           // takes a cycle, and waits for the one before
    const char *advance;             // a stream's data by {o} bytes
    std::vector<Repeated> repeated;  // of those with one name, the first that the target has
};

// Additions' results are overwritten, so that only products form chains. Bits of 16 are widened as schedules do it.
const Family x86 = {
    "x86-64",
    {128, 256, 512},
    "",
    {"movl $0x3f000000, %eax", "vmovd %eax, %xmm14", "vbroadcastss %xmm14, %{v}14", "vmovaps %{v}14, %{v}15"},
    {"decq %rsi", "jnz {label}"},
    {"vzeroupper", "ret"},
    "addq %rax, %rdx",
    "addq ${o}, %rdi",
    {{"fma_chain", {"vfmadd213ps %{v}15, %{v}14, %{v}0"}},
     {"fma", {"vfmadd213ps %{v}15, %{v}14, %{v}{n}"}},
     {"fma_beside_adds", {"vfmadd213ps %{v}15, %{v}14, %{v}{n}", "vaddps %{v}15, %{v}14, %{v}13"}},
     {"load", {"vmovups {o}(%rdi), %{v}{n}"}},
     {"store", {"vmovups %{v}{n}, {o}(%rdi)"}},
     {"shuffle", {"vunpcklps %{v}15, %{v}14, %{v}{n}"}},
     {"f16_widening", {"vcvtph2ps %{h}14, %{v}{n}"}},
     {"bf16_widening", {"vpmovzxwd %{h}14, %{v}{n}", "vpslld $16, %{v}{n}, %{v}{n}"}},
     {"int8_sum", {"vpdpbusd %{v}15, %{v}14, %{v}{n}"}, KILN_CPU_ZEN4 | KILN_CPU_SAPPHIRE_RAPIDS},
     {"int8_sum", {"{{vex}} vpdpbusd %{v}15, %{v}14, %{v}{n}"}, KILN_CPU_AVXVNNI, 256},
     {"int8_sum", {"vpmaddwd %{v}15, %{v}14, %{v}13", "vpaddd %{v}13, %{v}{n}, %{v}{n}"}},
     {"bf16_sum", {"vdpbf16ps %{v}15, %{v}14, %{v}{n}"}, KILN_CPU_ZEN4 | KILN_CPU_SAPPHIRE_RAPIDS}}};

const Family arm_64 = {"arm-64",
                       {128},
                       ".arch armv8.2-a+dotprod",
                       {"fmov v30.4s, #0.5", "fmov v31.4s, #0.5"},
                       {"subs x1, x1, #1", "b.ne {label}"},
                       {"ret"},
                       "add x2, x2, x3",
                       "add x0, x0, #{o}",
                       {{"fma_chain", {"fmla v0.4s, v30.4s, v31.4s"}},
                        {"fma", {"fmla v{n}.4s, v30.4s, v31.4s"}},
                        {"fma_beside_adds", {"fmla v{n}.4s, v30.4s, v31.4s", "fadd v29.4s, v30.4s, v31.4s"}},
                        {"load", {"ldr q{n}, [x0, #{o}]"}},
                        {"store", {"str q{n}, [x0, #{o}]"}},
                        {"shuffle", {"zip1 v{n}.4s, v30.4s, v31.4s"}},
                        {"f16_widening", {"fcvtl v{n}.4s, v30.4h"}},
                        {"bf16_widening", {"shll v{n}.4s, v30.4h, #16"}},
                        {"int8_sum", {"sdot v{n}.4s, v30.16b, v31.16b"}, KILN_CPU_DOTPROD},
                        {"int8_sum", {"smlal v{n}.4s, v30.4h, v31.4h"}}}};

const Family &family_of(const TargetModel &target) {
    for (const Family *family : {&x86, &arm_64}) {
        if (!target.is_gpu() && std::string_view(target.architecture).starts_with(family->architecture)) {
            return *family;
        }
    }
    throw Error(fmt::format("{} cannot be calibrated: there are loops for x86-64 and 64-bit ARM", target.name),
                StatusCode::unsupported);
}

// Writes the instructions of one family and one width.
struct Writer {
    const Family &family;
    int bits;

    // Registers 8 to 15 of 64-bit ARM are the caller's.
    int number_of(int chain) const { return &family == &arm_64 && chain >= 8 ? chain + 8 : chain; }

    std::string write(const char *pattern, int chain, int offset) const {
        const char *const registers[] = {"xmm", "xmm", "ymm", "zmm"};
        const int size = bits == 512 ? 3 : bits == 256 ? 2 : 1;
        return fmt::format(fmt::runtime(pattern), fmt::arg("v", registers[size]), fmt::arg("h", registers[size - 1]),
                           fmt::arg("n", number_of(chain)), fmt::arg("o", offset), fmt::arg("label", "{label}"));
    }

    CoreLoop start(const std::string &figure) const {
        CoreLoop loop = {figure, bits, 0, {}, {}};
        for (const char *line : family.before) {
            loop.before.push_back(write(line, 0, 0));
        }
        return loop;
    }

    CoreLoop repeat(const Repeated &repeated) const {
        CoreLoop loop = start(repeated.figure);
        loop.count = chains;
        for (int chain = 0; chain < chains; chain++) {
            for (const char *line : repeated.lines) {
                loop.lines.push_back(write(line, chain, chain * bits / 8));
            }
        }
        return loop;
    }

    // Of loads or of stores, whose text is that of the loop that repeats them in place.
    CoreLoop stream(const std::string &figure, const std::vector<const char *> &lines) const {
        CoreLoop loop = start(figure);
        loop.count = streamed * bits / 8;
        for (int vector = 0; vector < streamed; vector++) {
            loop.lines.push_back(write(lines[0], vector, vector * bits / 8));
        }
        loop.lines.push_back(write(family.advance, 0, loop.count));
        return loop;
    }
};

bool has(const TargetModel &target, const Repeated &repeated, int bits) {
    return bits <= repeated.most_bits && (repeated.features == 0 || (target.features & repeated.features) != 0);
}

std::string indented(const std::vector<std::string> &lines) {
    std::string text;
    for (const std::string &line : lines) {
        text += "    " + line + "\n";
    }
    return text;
}

}  // namespace

std::vector<CoreLoop> core_loops(const TargetModel &target) {
    const Family &family = family_of(target);
    CoreLoop clock = {"clock", 0, clock_adds, {}, std::vector<std::string>(clock_adds, family.clock_add)};
    std::vector<CoreLoop> loops = {clock};
    for (const int bits : family.widths) {
        if (bits > target.vector_bits) {
            continue;
        }
        const Writer writer = {family, bits};
        std::string last;
        for (const Repeated &repeated : family.repeated) {
            if (repeated.figure == last || !has(target, repeated, bits)) {
                continue;
            }
            last = repeated.figure;
            loops.push_back(writer.repeat(repeated));
            if (last == "load" || last == "store") {
                loops.push_back(writer.stream(last == "load" ? "read" : "write", repeated.lines));
            }
        }
    }
    for (size_t i = 0; i < loops.size(); i++) {
        for (const char *line : family.control) {
            loops[i].lines.push_back(fmt::format(fmt::runtime(line), fmt::arg("label", fmt::format(".Lloop{}", i))));
        }
    }
    return loops;
}

std::string loops_header(const std::vector<CoreLoop> &loops, const TargetModel &target) {
    const Family &family = family_of(target);
    std::string functions = fmt::format("{}\n.text\n", family.directives), declared, listed;
    for (size_t i = 0; i < loops.size(); i++) {
        const CoreLoop &loop = loops[i];
        const std::string name = fmt::format("kiln_loop_{}", i);
        functions += fmt::format(".balign 64\n.globl {0}\n.type {0}, %function\n{0}:\n{1}.balign 64\n.Lloop{2}:\n{3}",
                                 name, indented(loop.before), i, indented(loop.lines));
        functions += indented({family.end.begin(), family.end.end()});
        declared += fmt::format("void {}(void *data, long passes);\n", name);
        listed += fmt::format(" \\\n    X({}, \"{}\", {}, {})", name, loop.figure, loop.bits, loop.count);
    }
    return fmt::format("asm(R\"(\n{})\");\nextern \"C\" {{\n{}}}\n#define KILN_LOOPS(X){}\n", functions, declared,
                       listed);
}

}  // namespace kiln::tools
