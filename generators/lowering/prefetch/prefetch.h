// Prefetching what a loop reads, for which Halide has a directive, but of data that are used once only: x86 then keeps
// them out of the second cache, and the next loop that reads them waits again.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// Asks, in each step of `loop` of `stage`, for what that reads of an input tensor `ahead` steps later: near its end,
// for what follows in memory. What is lowered goes through lower_prefetches() then.
void prefetch(Halide::Stage stage, const Halide::Func &input, const Halide::VarOrRVar &loop, int ahead);

// The iterations that share what prefetches inside them ask for, since each of them reads the same: what the names of
// their loops contain, of which they are counted. Each asks for lines that follow each other, which an Intel Xeon reads
// the faster.
struct SharedPrefetches {
    std::vector<std::string> loops;
    int iterations = 1;  // 0: as many as those loops have, which are constants
    int64_t bytes = 0;   // that they ask for together
};

// LLVM's, which prefetches are lowered to.
inline constexpr const char *prefetch_instruction = "llvm.prefetch.p0";

// A prefetch of the line so many bytes, of 64 bits, behind a pointer: into all caches or into the second one.
Halide::Expr prefetch_line(const Halide::Expr &tensor, const Halide::Expr &bytes, bool into_all_caches = true);

// The lowered statement, whose prefetches are instructions: into all caches or, of what iterations share, into the
// second one. `arguments`: the names that are defined outside it.
Halide::Internal::Stmt lower_prefetches(const Halide::Internal::Stmt &statement, const SharedPrefetches &shared,
                                        const std::vector<std::string> &arguments);

}  // namespace kiln
