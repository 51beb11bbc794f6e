// Rounding to bytes: x86's conversions round to the nearest integer, and its packs of 32 bits to 16 and of 16 to 8
// saturate, each two vectors to one.
#include "lowering/instructions/quantization.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "expressions/lets.h"
#include "lowering/instructions/intrinsics.h"
#include "lowering/stores.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;
using Halide::Target;
using Halide::UInt;

constexpr const char *marker = "kiln_quantize";

// A vector's dwords lie in blocks of 128 bits, and packs are of each block by itself.
constexpr int block_lanes = 4;

Expr constant(const Expr &like, double value) {
    return make_const(like.type(), value);
}

Expr number_of_lanes(const Expr &number, const Halide::Type &type) {
    const Expr cast = simplify(Halide::cast(type.element_of(), number));
    return type.is_scalar() ? cast : Broadcast::make(cast, type.lanes());
}

// The least and the greatest result less the zero point, as numbers of v's type.
struct Limits {
    Limits(const Quantization &quantization, const Halide::Type &type)
        : least(of(quantization, quantization.least(), type)),
          most(of(quantization, quantization.least() + 255, type)) {}
    static Expr of(const Quantization &quantization, int result, const Halide::Type &type) {
        return number_of_lanes(Halide::cast<float>(result - quantization.zero_point), type);
    }

    Expr least, most;
};

// The call of a marker, of a vector.
struct Marked {
    Quantization quantization;
    Expr v;

    static std::optional<Marked> of(const Expr &value) {
        const auto *call = value.as<Call>();
        if (call == nullptr || call->name != marker) {
            return std::nullopt;
        }
        const auto scalar = [](const Expr &e) {
            const auto *broadcast = e.as<Broadcast>();
            return broadcast != nullptr ? broadcast->value : e;
        };
        return Marked{{call->type, scalar(call->args[1]), is_const_one(scalar(call->args[2]))}, call->args[0]};
    }

    [[nodiscard]] int lanes() const { return v.type().lanes(); }
    [[nodiscard]] Limits limits() const { return {quantization, v.type()}; }
    [[nodiscard]] bool has_zero_point() const { return !is_const_zero(quantization.zero_point); }
};

// The instructions of x86 for vectors of so many float32.
struct Instructions {
    int lanes;
    const char *convert, *pack, *pack_signed, *pack_unsigned, *add;
};

constexpr Instructions all_instructions[] = {
    {16, "llvm.x86.avx512.mask.cvtps2dq.512", "llvm.x86.avx512.packssdw.512", "llvm.x86.avx512.packsswb.512",
     "llvm.x86.avx512.packuswb.512", "llvm.sadd.sat.v32i16"},
    {8, "llvm.x86.avx.cvt.ps2dq.256", "llvm.x86.avx2.packssdw", "llvm.x86.avx2.packsswb", "llvm.x86.avx2.packuswb",
     "llvm.sadd.sat.v16i16"},
    {4, "llvm.x86.sse2.cvtps2dq", "llvm.x86.sse2.packssdw.128", "llvm.x86.sse2.packsswb.128",
     "llvm.x86.sse2.packuswb.128", "llvm.sadd.sat.v8i16"},
};

bool has_wide_vectors(const Target &target) {
    return target.has_feature(Target::AVX512_Skylake);
}

const Instructions *instructions_for(int lanes, const Target &target) {
    for (const Instructions &instructions : all_instructions) {
        if (instructions.lanes == lanes && (lanes < 16 || has_wide_vectors(target))) {
            return &instructions;
        }
    }
    return nullptr;
}

// Rounded by the processor's mode, which is half to even; what no int32 is becomes the least one.
Expr to_integers(const Instructions &by, const Expr &v) {
    std::vector<Expr> operands = {v};
    if (by.lanes == 16) {
        constexpr int current_rounding = 4;
        operands.insert(operands.end(), {make_zero(Int(32, by.lanes)), make_const(Int(16), -1), current_rounding});
    }
    return llvm_intrinsic(Int(32, by.lanes), by.convert, operands);
}

// Four vectors' results, one after the other in a vector four times as long.
Expr packed(const Instructions &by, const std::vector<Marked> &four) {
    const int lanes = by.lanes;
    const Quantization &quantization = four[0].quantization;
    std::vector<Expr> integers, pairs;
    for (const Marked &marked : four) {
        integers.push_back(to_integers(by, Halide::strict_float(min(marked.v, marked.limits().most))));
    }
    for (const size_t first : {0, 2}) {
        Expr pair = llvm_intrinsic(Int(16, 2 * lanes), by.pack, {integers[first], integers[first + 1]});
        if (four[0].has_zero_point()) {
            pair = llvm_intrinsic(pair.type(), by.add, {pair, number_of_lanes(quantization.zero_point, pair.type())});
        }
        pairs.push_back(pair);
    }
    const bool is_unsigned = quantization.type.is_uint();
    const Expr bytes =
        llvm_intrinsic(quantization.type.with_lanes(4 * lanes), is_unsigned ? by.pack_unsigned : by.pack_signed, pairs);
    if (lanes == block_lanes) {
        return bytes;
    }
    std::vector<int> order;  // of dwords, each of which has four results of one vector
    for (int vector = 0; vector < 4; vector++) {
        for (int block = 0; block < lanes / block_lanes; block++) {
            order.push_back(block * 4 + vector);
        }
    }
    const Expr dwords = Halide::reinterpret(UInt(32, lanes), bytes);
    return Halide::reinterpret(bytes.type(), Shuffle::make({dwords}, order));
}

// One vector's results.
Expr alone(const Marked &marked, const Target &target) {
    const int lanes = marked.lanes();
    const Quantization &quantization = marked.quantization;
    const Instructions *by = instructions_for(lanes, target);
    if (by == nullptr) {
        const int wide = has_wide_vectors(target) ? 16 : 8;
        if (lanes <= wide || lanes % wide != 0) {
            return quantization.by_arithmetic(marked.v);
        }
        const std::string name = unique_name("rounded");
        const Expr v = Variable::make(marked.v.type(), name);
        std::vector<Expr> parts;
        for (int first = 0; first < lanes; first += wide) {
            const Halide::Type type = quantization.type.with_lanes(wide);
            parts.push_back(alone(
                {{type, quantization.zero_point, quantization.above}, Shuffle::make_slice(v, first, 1, wide)}, target));
        }
        return Let::make(name, marked.v, Shuffle::make_concat(parts));
    }
    if (!has_wide_vectors(target)) {
        return Shuffle::make_slice(packed(*by, {marked, marked, marked, marked}), 0, 1, lanes);
    }
    // AVX-512 narrows a vector by itself, with saturation of numbers without a sign.
    const bool saturates = quantization.type.is_uint();
    const Expr above = quantization.above ? marked.v : max(marked.v, marked.limits().least);
    const Expr inside = Halide::strict_float(saturates ? above : min(above, marked.limits().most));
    Expr integers = to_integers(*by, inside);
    if (marked.has_zero_point()) {
        integers += number_of_lanes(quantization.zero_point, integers.type());
    }
    if (saturates) {
        const Expr number = Halide::reinterpret(UInt(32, lanes), integers);
        return Halide::cast(quantization.type, min(number, constant(number, 255)));
    }
    return Halide::cast(quantization.type, integers);
}

class LowerQuantizations : public IRMutator {
  public:
    explicit LowerQuantizations(const Target &target) : target_(target) {}

  protected:
    using IRMutator::visit;

    Expr visit(const Call *op) override {
        if (auto marked = Marked::of(op)) {
            marked->v = mutate(marked->v);
            return alone(*marked, target_);
        }
        return IRMutator::visit(op);
    }

    Stmt visit(const Block *op) override {
        std::vector<Stmt> all, result;
        flatten_block(op, [](const Stmt &s) { return s.as<Store>() != nullptr; }, all);
        for (size_t first = 0; first < all.size();) {
            size_t end = first;
            while (end < all.size() && end < first + 4 && packs(all[end]) && alike(all[first], all[end])) {
                end++;
            }
            if (end < first + 2) {
                result.push_back(mutate(all[first++]));
                continue;
            }
            result.push_back(store_packed({all.begin() + first, all.begin() + end}));
            first = end;
        }
        return Block::make(result);
    }

  private:
    const Target target_;

    // Whether a statement stores a vector of quantized numbers, one after the other.
    [[nodiscard]] bool packs(const Stmt &statement) const {
        const auto *store = statement.as<Store>();
        const auto *ramp = store == nullptr ? nullptr : store->index.as<Ramp>();
        return ramp != nullptr && is_const_one(ramp->stride) && is_const_one(store->predicate) &&
               Marked::of(store->value) && instructions_for(ramp->lanes, target_) != nullptr;
    }

    static bool alike(const Stmt &one, const Stmt &other) {
        const auto a = Marked::of(one.as<Store>()->value), b = Marked::of(other.as<Store>()->value);
        return one.as<Store>()->name == other.as<Store>()->name && a->quantization.type == b->quantization.type &&
               equal(a->quantization.zero_point, b->quantization.zero_point);
    }

    Stmt store_packed(const std::vector<Stmt> &stores) {
        std::vector<Marked> four;
        for (const Stmt &store : stores) {
            four.push_back(*Marked::of(store.as<Store>()->value));
            four.back().v = mutate(four.back().v);
        }
        four.resize(4, four.back());
        const int lanes = four[0].lanes();
        Lets lets;
        for (Marked &marked : four) {
            lets.emplace_back(unique_name("unrounded"), marked.v);
            marked.v = Variable::make(marked.v.type(), lets.back().first);
        }
        lets.emplace_back(unique_name("packed_bytes"), packed(*instructions_for(lanes, target_), four));
        const Expr bytes = Variable::make(lets.back().second.type(), lets.back().first);
        std::vector<Stmt> result;
        for (size_t first = 0; first < stores.size();) {
            size_t count = std::bit_floor(stores.size() - first);
            while (count > 1 && !are_neighbours(stores, first, count)) {
                count /= 2;
            }
            const auto *store = stores[first].as<Store>();
            const int length = static_cast<int>(count) * lanes;
            const Expr slice = Shuffle::make_slice(bytes, static_cast<int>(first) * lanes, 1, length);
            const Expr index = Ramp::make(store->index.as<Ramp>()->base, 1, length);
            result.push_back(
                Store::make(store->name, slice, index, store->param, const_true(length), store->alignment));
            first += count;
        }
        return within_lets(Block::make(result), lets);
    }

    // Whether so many stores' places follow each other.
    static bool are_neighbours(const std::vector<Stmt> &stores, size_t first, size_t count) {
        const auto place = [&stores](size_t i) { return stores[i].as<Store>()->index.as<Ramp>()->base; };
        const int lanes = stores[first].as<Store>()->value.type().lanes();
        for (size_t i = first + 1; i < first + count; i++) {
            if (!is_const(simplify(place(i) - place(i - 1)), lanes)) {
                return false;
            }
        }
        return true;
    }
};

}  // namespace

Expr Quantization::by_arithmetic(const Expr &v) const {
    const Halide::Type of_v = Int(32, v.type().lanes());
    const Halide::Type bytes = type.with_lanes(v.type().lanes());
    const Limits limits(*this, v.type());
    // Saturating first, to integers, comes to the same, and then a sum whose last digit is worth 1 rounds: its low byte
    // is the result.
    const Expr saturated = min(above ? v : max(v, limits.least), limits.most);
    const Expr rounded = Halide::strict_float(saturated + constant(v, 0x1.8p23));
    return Halide::cast(bytes, Halide::reinterpret(of_v, rounded)) + number_of_lanes(zero_point, bytes);
}

Expr Quantization::by_instructions(const Expr &v) const {
    return Call::make(type, marker, {v, zero_point, make_const(UInt(1), above)}, Call::PureExtern);
}

bool has_quantizing_instructions(const Target &target) {
    return target.arch == Target::X86 && target.has_feature(Target::AVX2) && !target.has_gpu_feature();
}

Stmt lower_quantizations(const Stmt &statement, const Target &target) {
    return LowerQuantizations(target).mutate(statement);
}

}  // namespace kiln
