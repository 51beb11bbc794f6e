// Matrix products by a warp of CUDA: PTX's mma.sync.m16n8k16 of float16 or bfloat16 and m16n8k8 of TF32, sums in
// float32.
//
// Halide has no expression for it. A definition calls what stands here; a pass over what is lowered makes one call of
// the four numbers that a thread gets, and another over PTX's text makes that the instruction. All threads of a warp
// must come to it: its calls have effects, for all that LLVM knows, and so it moves none of them behind a condition.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

// What an instruction multiplies. TF32 are float32's first 19 bits.
enum class MmaType : uint8_t { f16, bf16, tf32 };

// Two neighbours of 16 bits, or one number of 32: word `number` of what begins with `first`, which is loaded from a
// place that a vector of words may have.
Halide::Expr word_of(const Halide::Expr &first, const Halide::Expr &number);

// Of a word that is a float32: the TF32 next to it, which is infinite for numbers that round to 2^128, and what that
// leaves of it, which is one but for a bit.
Halide::Expr leading_tf32(const Halide::Expr &word);
Halide::Expr remaining_tf32(const Halide::Expr &word);

// A number of which Halide knows nothing: where a thread is outside, it would leave out what keeps its loads inside, as
// it expects no use of its sums.
Halide::Expr of_any_value(const Halide::Expr &number);

// A thread's share (PTX ISA, mma.m16n8k16 and mma.m16n8k8): a word of rows g and g + 8, then the same half of all
// products on; those of column g; and sums of columns 2 t and 2 t + 1, of row g and then g + 8.
struct MmaOperands {
    std::vector<Halide::Expr> rows, columns, sums;
    // Of TF32 the columns' two numbers may be one word of this type, f16 or bf16, which are TF32 as they are. Halide
    // would take out of the sums the word that two operands have in common.
    std::optional<MmaType> packed_columns;
};

// The sums with all products added.
std::vector<Halide::Expr> mma_sums(MmaType type, const MmaOperands &operands);

// The custom lowering pass. Conditions around products are left out: what is loaded for them must be there for all
// threads of a warp. Vectors of 16 bits are stored 16 bytes at a time.
class CallMma : public Halide::Internal::IRMutator {
  public:
    using IRMutator::mutate;
    // Of a block of a kernel with products of TF32; 0 where there is none. Those of other types are left to ptxas,
    // which takes fewer registers for them, and more where it is told that there are more.
    int threads() const { return threads_; }

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Block *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::IfThenElse *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Store *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::For *op) override;

  private:
    bool in_products_ = false;  // within a kernel of products
    int threads_ = 0;
};

// Puts the instructions in place of calls, in the PTX of a lowered module; throws where a call is not as expected.
// Kernels with instructions get no more registers than blocks of so many threads can have.
void use_mma(Halide::Module &module, int threads);

}  // namespace kiln
