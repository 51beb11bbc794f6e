// Words of four 8-bit numbers on GPUs: their loads and stores, and the sums of the products of two such words, which
// CUDA has an instruction for (dp4a).
//
// Halide has no expression for either that stays one in vectors of words. A definition calls what stands here, and a
// pass over what is lowered makes of the calls what the interface has.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

// The word, a number of 32 bits, that begins with `first`: an 8-bit number, which is loaded from a multiple of 4.
Halide::Expr word_of_bytes(const Halide::Expr &first);
// The word of four 8-bit numbers that lie anywhere, the first in its lowest bits.
Halide::Expr word_of_bytes(const std::vector<Halide::Expr> &bytes);

// The sum of the products of the bytes of two words, x and w, each signed or not: a number of 32 bits with a sign. What
// it is added to becomes part of the instruction.
Halide::Expr byte_products(const Halide::Expr &x, bool x_is_signed, const Halide::Expr &w, bool w_is_signed);

// The custom lowering pass. Vectors of two or four 8-bit numbers are loaded and stored as one number of 16 or 32 bits
// where they lie at multiples of that within a tensor, which itself is at such an address.
class UseByteWords : public Halide::Internal::IRMutator {
  public:
    explicit UseByteWords(bool has_dp4a) : has_dp4a_(has_dp4a) {}
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Add *op) override;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
    Halide::Expr visit(const Halide::Internal::Load *op) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Store *op) override;

  private:
    Halide::Expr add_products(const Halide::Internal::Call *products, const Halide::Expr &sum);

    const bool has_dp4a_;
};

}  // namespace kiln
