#include "lowering/gpu/byte_words.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;
using Halide::UInt;
using IrStmt = Halide::Internal::Stmt;  // Halide::Stmt is another thing

namespace {

constexpr const char *word = "kiln_word_of_bytes", *products = "kiln_byte_products";
constexpr int bytes_of_word = 4;

const Call *as_products(const Expr &value) {
    const Call *call = value.as<Call>();
    return call != nullptr && call->name == products ? call : nullptr;
}

// Byte `number` of a word, as a number of 32 bits.
Expr byte_of(const Expr &word_of, int number, bool is_signed) {
    const int lanes = word_of.type().lanes();
    if (is_signed) {  // what is shifted out of a number with a sign is an overflow to Halide
        const Expr bits = Halide::reinterpret(UInt(32, lanes), word_of);
        const Expr first = bits << make_const(UInt(32, lanes), 8 * (bytes_of_word - 1 - number));
        return Halide::reinterpret(Int(32, lanes), first) >> make_const(Int(32, lanes), 24);
    }
    return (word_of >> make_const(Int(32, lanes), 8 * number)) & make_const(Int(32, lanes), 255);
}

// Where the word of 16 or 32 bits lies, counted in such words, that a vector of 8 bits in memory is; undefined where it
// is none, or may begin within one.
Expr index_of_word(Halide::Type type, const Expr &index, const Expr &predicate, const ModulusRemainder &alignment) {
    const auto *ramp = index.as<Ramp>();
    const int lanes = type.lanes();
    const bool is_word =
        type.bits() == 8 && (lanes == 2 || lanes == 4) && ramp != nullptr && is_const_one(ramp->stride);
    const bool begins_there = alignment.modulus % lanes == 0 && alignment.remainder % lanes == 0;
    return is_word && begins_there && is_const_one(predicate) ? ramp->base / lanes : Expr();
}

}  // namespace

Expr word_of_bytes(const Expr &first) {
    return Call::make(Int(32), word, {first}, Call::PureExtern);
}

Expr word_of_bytes(const std::vector<Expr> &bytes) {
    Expr result = Halide::cast<uint32_t>(0);
    for (size_t i = 0; i < bytes.size(); i++) {
        const Expr byte = Halide::cast<uint32_t>(Halide::cast<uint8_t>(bytes[i]));
        result = result | byte << static_cast<uint32_t>(8 * i);
    }
    return Halide::reinterpret<int32_t>(result);
}

Expr byte_products(const Expr &x, bool x_is_signed, const Expr &w, bool w_is_signed) {
    return Call::make(Int(32), products, {x, w, x_is_signed ? 1 : 0, w_is_signed ? 1 : 0}, Call::PureExtern);
}

Expr UseByteWords::add_products(const Call *call, const Expr &sum) {
    const Expr x = mutate(call->args[0]), w = mutate(call->args[1]);
    const auto is_signed = [&](size_t i) { return !is_const_zero(call->args[i]); };
    if (has_dp4a_) {
        // LLVM's intrinsic takes one word of each: it is called for each lane of a vector.
        const std::string name =
            std::string("llvm.nvvm.idp4a.") + (is_signed(2) ? "s" : "u") + (is_signed(3) ? ".s" : ".u");
        return Call::make(call->type, name, {x, w, sum}, Call::PureExtern);
    }
    Expr result = sum;
    for (int i = 0; i < bytes_of_word; i++) {
        result += byte_of(x, i, is_signed(2)) * byte_of(w, i, is_signed(3));
    }
    return result;
}

Expr UseByteWords::visit(const Add *op) {
    for (const auto &[sum, other] : {std::pair(op->a, op->b), std::pair(op->b, op->a)}) {
        if (const Call *call = as_products(other)) {
            return add_products(call, mutate(sum));
        }
    }
    return IRMutator::visit(op);
}

Expr UseByteWords::visit(const Call *op) {
    if (op->name == products) {
        return add_products(op, make_zero(op->type));
    }
    if (op->name != word) {
        return IRMutator::visit(op);
    }
    const Expr first = substitute_in_all_lets(op->args[0]);
    const auto *load = first.as<Load>();
    const auto *ramp = load != nullptr ? load->index.as<Ramp>() : nullptr;
    const bool is_one = load != nullptr && load->type.is_scalar();
    // Of a vector's words each begins four bytes behind the one before.
    if ((!is_one && (ramp == nullptr || !is_const(ramp->stride, bytes_of_word))) || load->type.bits() != 8) {
        throw Halide::InternalError("a word of bytes that are not loaded");
    }
    Expr index = simplify(mutate(is_one ? load->index : ramp->base) / bytes_of_word);
    if (!is_one) {
        index = Ramp::make(index, 1, ramp->lanes);
    }
    const ModulusRemainder bytes = modulus_remainder(is_one ? load->index : ramp->base);
    const ModulusRemainder alignment(std::max<int64_t>(bytes.modulus / bytes_of_word, 1),
                                     bytes.remainder / bytes_of_word);
    return Load::make(Int(32, load->type.lanes()), load->name, index, load->image, load->param, mutate(load->predicate),
                      alignment);
}

Expr UseByteWords::visit(const Load *op) {
    const Expr index = index_of_word(op->type, op->index, op->predicate, op->alignment);
    if (!index.defined()) {
        return IRMutator::visit(op);
    }
    return Halide::reinterpret(op->type, Load::make(UInt(8 * op->type.lanes()), op->name, simplify(mutate(index)),
                                                    op->image, op->param, const_true(), ModulusRemainder()));
}

IrStmt UseByteWords::visit(const Store *op) {
    const Halide::Type type = op->value.type();
    const Expr index = index_of_word(type, op->index, op->predicate, op->alignment);
    if (!index.defined()) {
        return IRMutator::visit(op);
    }
    return Store::make(op->name, Halide::reinterpret(UInt(8 * type.lanes()), mutate(op->value)),
                       simplify(mutate(index)), op->param, const_true(), ModulusRemainder());
}

}  // namespace kiln
