#include "lowering/instructions/byte_lookups.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lowering/instructions/intrinsics.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Target;
using Halide::UInt;

constexpr const char *marker = "kiln_byte_lookup";

// An instruction that permutes bytes: an intrinsic's name, and the lanes of its vectors; none of 0 lanes.
struct Permutation {
    enum Kind { none, of_two_vectors, of_four_vectors, within_blocks } kind = none;
    const char *name = nullptr;
    int lanes = 0;
};

Permutation permutation_of(const Target &target) {
    if (target.arch == Target::ARM && target.bits == 64) {
        return {Permutation::of_four_vectors, "llvm.aarch64.neon.tbl4.v16i8", 16};
    }
    if (target.arch != Target::X86) {
        return {};
    }
    if (target.has_feature(Target::AVX512_Cannonlake)) {
        return {Permutation::of_two_vectors, "llvm.x86.avx512.vpermi2var.qi.512", 64};
    }
    if (target.has_feature(Target::AVX512_Skylake)) {
        return {Permutation::within_blocks, "llvm.x86.avx512.pshuf.b.512", 64};
    }
    if (target.has_feature(Target::AVX2)) {
        return {Permutation::within_blocks, "llvm.x86.avx2.pshuf.b", 32};
    }
    return {};
}

// Looks up as many bytes as an instruction permutes.
class Lookup {
  public:
    Lookup(const Permutation &permutation, const Load *table, const Expr &bytes)
        : permutation_(permutation), table_(table), bytes_(bytes) {}

    Expr result() const {
        switch (permutation_.kind) {
            case Permutation::of_two_vectors:
                return by_two_vectors();
            case Permutation::of_four_vectors:
                return by_four_vectors();
            default:
                return within_blocks();
        }
    }

  private:
    // The instruction heeds the seven bits that a place in two vectors has.
    Expr by_two_vectors() const {
        const Expr first = permuted({part(0, 64), bytes_, part(64, 64)});
        const Expr second = permuted({part(128, 64), bytes_, part(192, 64)});
        return chosen(bytes_, second, first);
    }

    // The instruction gives 0 for what is not in its four vectors.
    Expr by_four_vectors() const {
        Expr all;
        for (int first = 0; first < byte_values; first += 64) {
            const Expr place = first == 0 ? bytes_ : bytes_ - constant(first);
            const Expr found =
                permuted({part(first, 16), part(first + 16, 16), part(first + 32, 16), part(first + 48, 16), place});
            all = all.defined() ? all | found : found;
        }
        return all;
    }

    // Each block of 16 lanes is permuted by itself, by the lowest four bits: of all 16 parts of the table, one is
    // chosen by the other bits, a bit at a time.
    Expr within_blocks() const {
        const Expr low = bytes_ & constant(15);
        std::vector<Expr> found;
        for (int first = 0; first < byte_values; first += 16) {
            const std::vector<Expr> blocks(permutation_.lanes / 16, part(first, 16));
            found.push_back(permuted({Shuffle::make_concat(blocks), low}));
        }
        for (int bit = 4; found.size() > 1; bit++) {
            const Expr sign = bit == 7 ? bytes_ : bytes_ << constant(7 - bit);
            std::vector<Expr> halves;
            for (size_t i = 0; i < found.size(); i += 2) {
                halves.push_back(chosen(sign, found[i + 1], found[i]));
            }
            found = halves;
        }
        return found[0];
    }

    Expr constant(int value) const { return make_const(bytes_.type(), value); }

    // By the highest bit of each lane.
    static Expr chosen(const Expr &sign, const Expr &if_set, const Expr &if_not) {
        const Expr number = Halide::reinterpret(Halide::Int(8, sign.type().lanes()), sign);
        return Select::make(number < make_zero(number.type()), if_set, if_not);
    }

    Expr part(int first, int lanes) const {
        return Load::make(UInt(8, lanes), table_->name, Ramp::make(first, 1, lanes), table_->image, table_->param,
                          const_true(lanes), ModulusRemainder(0, first));
    }

    Expr permuted(const std::vector<Expr> &operands) const {
        return llvm_intrinsic(UInt(8, permutation_.lanes), permutation_.name, operands);
    }

    const Permutation &permutation_;
    const Load *table_;
    const Expr bytes_;
};

class LowerLookups : public IRMutator {
  public:
    explicit LowerLookups(const Target &target) : permutation_(permutation_of(target)) {}

  protected:
    using IRMutator::visit;
    Expr visit(const Call *op) override {
        if (op->name != marker) {
            return IRMutator::visit(op);
        }
        const auto *broadcast = op->args[0].as<Broadcast>();
        const auto *table = (broadcast != nullptr ? broadcast->value : op->args[0]).as<Load>();
        if (table == nullptr) {
            throw Halide::InternalError("bytes are looked up in what is no table");
        }
        const Expr bytes = mutate(op->args[1]);
        const int lanes = op->type.lanes(), width = permutation_.lanes;
        if (width == 0 || lanes == 1) {
            return Load::make(op->type, table->name, Halide::cast(Halide::Int(32, lanes), bytes), table->image,
                              table->param, const_true(lanes), ModulusRemainder());
        }
        const std::string name = unique_name("bytes");
        const Expr variable = Variable::make(bytes.type(), name);
        std::vector<Expr> found;
        for (int first = 0; first < lanes; first += width) {
            found.push_back(Lookup(permutation_, table, lanes_of(variable, first, width)).result());
        }
        const Expr all = found.size() == 1 ? found[0] : Shuffle::make_concat(found);
        return Let::make(name, bytes, all.type().lanes() == lanes ? all : Shuffle::make_slice(all, 0, 1, lanes));
    }

  private:
    // So many lanes of a vector from one on, zeros where it ends.
    static Expr lanes_of(const Expr &vector, int first, int count) {
        const int there = std::min(count, vector.type().lanes() - first);
        const Expr slice = there == vector.type().lanes() ? vector : Shuffle::make_slice(vector, first, 1, there);
        return there == count ? slice
                              : Shuffle::make_concat({slice, make_zero(vector.type().with_lanes(count - there))});
    }

    const Permutation permutation_;
};

}  // namespace

bool looks_up_vectors(const Target &target) {
    return permutation_of(target).lanes > 0;
}

Expr look_up(const Halide::Func &table, const Expr &byte) {
    return Call::make(UInt(8), marker, {table(0), byte}, Call::PureExtern);
}

Stmt lower_byte_lookups(const Stmt &statement, const Target &target) {
    return LowerLookups(target).mutate(statement);
}

}  // namespace kiln
