#include "lowering/gpu/mma.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "lowering/gpu/ptx_calls.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Float;
using Halide::UInt;
using IrStmt = Halide::Internal::Stmt;

namespace {

constexpr const char *word = "kiln_word_of", *unknown = "kiln_of_any_value";
constexpr const char *leading = "kiln_leading_tf32", *remaining = "kiln_remaining_tf32";
// Of definitions, with a suffix for the type and the number of the sum first; and what stands for all four.
constexpr const char *one_sum = "kiln_mma_sum_", *all_sums = "kiln_mma_";

struct Instruction {
    MmaType type;
    const char *suffix, *text;
};

constexpr Instruction instructions[] = {
    {MmaType::f16, "f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"},
    {MmaType::bf16, "bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"},
    {MmaType::tf32, "tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"},
};

template <typename F>
const Instruction &find_instruction(const F &is_it) {
    return *std::find_if(std::begin(instructions), std::end(instructions), is_it);
}

bool starts_with(const std::string &text, const char *start) {
    return text.rfind(start, 0) == 0;
}

// The call of one sum that a value is; null where it is another.
const Call *as_sum(const Expr &value) {
    const Call *call = value.as<Call>();
    return call != nullptr && starts_with(call->name, one_sum) ? call : nullptr;
}

bool are_equal(const std::vector<Expr> &a, const std::vector<Expr> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Expr &one, const Expr &other) { return equal(one, other); });
}

}  // namespace

Expr word_of(const Expr &first, const Expr &number) {
    return Call::make(UInt(32), word, {first, number}, Call::PureExtern);
}

// What they stand for is put in last: Halide would take out of the sums what these have in common, one by one.
Expr leading_tf32(const Expr &word) {
    return Call::make(UInt(32), leading, {word}, Call::PureExtern);
}

Expr remaining_tf32(const Expr &word) {
    return Call::make(UInt(32), remaining, {word}, Call::PureExtern);
}

std::vector<Expr> mma_sums(MmaType type, const MmaOperands &operands) {
    const auto suffix_of = [](MmaType wanted) -> std::string {
        return find_instruction([wanted](const Instruction &one) { return one.type == wanted; }).suffix;
    };
    std::string suffix = suffix_of(type);
    if (operands.packed_columns) {
        suffix += '_' + suffix_of(*operands.packed_columns);
    }
    std::vector<Expr> result, args(1);
    for (const std::vector<Expr> &list : {operands.rows, operands.columns, operands.sums}) {
        args.insert(args.end(), list.begin(), list.end());
    }
    for (int i = 0; i < 4; i++) {
        args[0] = i;
        result.push_back(Call::make(Float(32), one_sum + suffix, args, Call::PureExtern));
    }
    return result;
}

Expr of_any_value(const Expr &number) {
    return Call::make(number.type(), unknown, {number}, Call::PureExtern);
}

Expr CallMma::visit(const Call *op) {
    if (op->name == unknown) {
        return mutate(op->args[0]);
    }
    if (starts_with(op->name, one_sum)) {
        throw Halide::InternalError("a sum of matrix products that does not stand by itself");
    }
    if (op->name == leading || op->name == remaining) {
        // Rounded, so that what is left has either sign.
        const Expr bits = mutate(op->args[0]);
        const Expr first = (bits + make_const(bits.type(), 0x1000)) & make_const(bits.type(), 0xffffe000u);
        return op->name == leading ? first
                                   : Halide::reinterpret(bits.type(), Halide::reinterpret(Float(32), bits) -
                                                                          Halide::reinterpret(Float(32), first));
    }
    if (op->name != word) {
        return IRMutator::visit(op);
    }
    Expr first = substitute_in_all_lets(op->args[0]);
    if (const auto *same = first.as<Broadcast>()) {
        first = same->value;
    }
    const Load *load = first.as<Load>();
    if (load == nullptr || !load->type.is_scalar() || (load->type.bits() != 16 && load->type.bits() != 32)) {
        throw Halide::InternalError("a word of products that is not loaded");
    }
    const int of_word = 32 / load->type.bits();
    Expr index = simplify(mutate(load->index) / of_word);
    const ModulusRemainder alignment(std::max<int64_t>(load->alignment.modulus / of_word, 1),
                                     load->alignment.remainder / of_word);
    const auto *numbers = op->args[1].as<Ramp>();
    if (numbers != nullptr && numbers->lanes == 2 && is_const_zero(numbers->base) && alignment.modulus % 2 == 0 &&
        alignment.remainder % 2 == 0) {
        // Of vectors that are not of 16 bytes Halide expects no more than that their elements are aligned.
        const Expr both = Load::make(UInt(64), load->name, simplify(index / 2), load->image, load->param, const_true(),
                                     ModulusRemainder());
        return Halide::reinterpret(op->type, both);
    }
    index =
        numbers == nullptr ? index + op->args[1] : Ramp::make(index + numbers->base, numbers->stride, numbers->lanes);
    return Load::make(op->type, load->name, simplify(index), load->image, load->param, const_true(op->type.lanes()),
                      alignment);
}

// Whether a statement has products, of numbers of that type where one is named.
bool multiplies(const IrStmt &statement, const char *type = "") {
    class Visitor : public IRVisitor {
      public:
        std::string name;
        bool found = false;

      protected:
        using IRVisitor::visit;
        void visit(const Call *op) override {
            found = found || starts_with(op->name, name.c_str());
            IRVisitor::visit(op);
        }
    } visitor;
    visitor.name = std::string(one_sum) + type;
    statement.accept(&visitor);
    return visitor.found;
}

IrStmt CallMma::visit(const IfThenElse *op) {
    // Halide leaves out sums that are not stored; but all threads of a warp multiply.
    return !op->else_case.defined() && multiplies(op->then_case) ? mutate(op->then_case) : IRMutator::visit(op);
}

IrStmt CallMma::visit(const For *op) {
    const bool outer = in_products_;
    in_products_ = outer || (is_gpu(op->for_type) && multiplies(op->body));
    if (in_products_ && op->for_type == ForType::GPUThread && multiplies(op->body, "tf32")) {
        const auto extent = as_const_int(op->extent);
        threads_ = std::max(threads_, 1) * static_cast<int>(extent.value_or(1));
    }
    IrStmt result = IRMutator::visit(op);
    in_products_ = outer;
    return result;
}

IrStmt CallMma::visit(const Store *op) {
    const Halide::Type type = op->value.type();
    const Ramp *ramp = op->index.as<Ramp>();
    const int whole = 8;  // 16 bytes
    if (!in_products_ || type.bits() != 16 || type.lanes() % whole != 0 || ramp == nullptr ||
        !is_const_one(ramp->stride) || !is_const_one(op->predicate) || op->alignment.modulus % whole != 0 ||
        op->alignment.remainder % whole != 0) {
        return IRMutator::visit(op);
    }
    const std::string name = unique_name("words");
    const Expr words = Variable::make(UInt(32, type.lanes() / 2), name);
    std::vector<IrStmt> stores;
    for (int at = 0; at < type.lanes(); at += whole) {
        const Expr four = type.lanes() == whole ? words : Shuffle::make_slice(words, at / 2, 1, 4);
        const Expr index = Ramp::make(simplify((mutate(ramp->base) + at) / 2), 1, 4);
        stores.push_back(Store::make(op->name, four, index, op->param, const_true(4), ModulusRemainder(4, 0)));
    }
    return LetStmt::make(name, Halide::reinterpret(words.type(), mutate(op->value)), Block::make(stores));
}

IrStmt CallMma::visit(const Block *op) {
    // A tuple's four numbers are stored one after the other. They are of the sums before, whatever was stored since.
    std::vector<const Store *> stores;
    const IrStmt *rest = nullptr;
    for (const Block *at = op; at != nullptr && stores.size() < 4; at = at->rest.as<Block>()) {
        const auto *store = at->first.as<Store>();
        if (store == nullptr || as_sum(store->value) == nullptr) {
            break;
        }
        stores.push_back(store);
        rest = &at->rest;
    }
    if (const auto *last = rest == nullptr ? nullptr : rest->as<Store>(); stores.size() == 3 && last != nullptr) {
        stores.push_back(last);
        rest = nullptr;
    }
    if (stores.empty()) {
        return IRMutator::visit(op);
    }
    const Call *first = as_sum(stores[0]->value);
    const std::vector<Expr> operands(first->args.begin() + 1, first->args.end());
    const std::string name = unique_name("kiln_mma");
    const Expr all = Halide::reinterpret(Float(32, 4), Variable::make(UInt(128), name));
    std::vector<IrStmt> numbers;
    for (const Store *store : stores) {
        const Call *sum = as_sum(store->value);
        if (sum == nullptr || !is_const(sum->args[0], static_cast<int64_t>(numbers.size())) ||
            !are_equal(operands, {sum->args.begin() + 1, sum->args.end()})) {
            break;
        }
        numbers.push_back(Store::make(store->name, Shuffle::make_extract_element(all, static_cast<int>(numbers.size())),
                                      store->index, store->param, store->predicate, store->alignment));
    }
    if (numbers.size() != 4) {
        throw Halide::InternalError("matrix products of which not all four sums are stored");
    }
    const Expr call =
        Call::make(UInt(128), all_sums + first->name.substr(std::strlen(one_sum)), mutate(operands), Call::Extern);
    const IrStmt here = LetStmt::make(name, call, Block::make(numbers));
    return rest == nullptr ? here : Block::make(here, mutate(*rest));
}

namespace {

// What makes the columns' two numbers of one word, where the call's name says so; they are two operands then.
std::string unpack_columns(PtxCall &call) {
    const size_t end = call.name.find('_'), columns = 4;
    if (end == std::string::npos) {
        return "";
    }
    const std::string word = call.operands.at(columns);
    const bool is_f16 = call.name.substr(end + 1) == "f16";
    call.name.resize(end);
    call.operands[columns] = "%c0";
    call.operands.insert(call.operands.begin() + columns + 1, "%c1");
    return ".reg .b32 %c<2>; " +
           (is_f16 ? ".reg .b16 %h<2>; mov.b32 {%h0,%h1}, " + word + "; cvt.f32.f16 %c0, %h0; cvt.f32.f16 %c1, %h1; "
                   : "shl.b32 %c0, " + word + ", 16; and.b32 %c1, " + word + ", -65536; ");
}

// The instruction in place of a call.
std::string instruction_of(PtxCall call) {
    std::string moves = unpack_columns(call);
    if (call.operands.size() != 10 || call.result.find(", ") == std::string::npos) {
        throw Halide::InternalError("a call of mma is not as expected: " + call.result);
    }
    std::vector<std::string> &operands = call.operands;
    for (size_t i = 0; i < operands.size(); i++) {
        if (operands[i][0] != '%') {  // a constant, of which the instruction has none
            const std::string constant = "%k" + std::to_string(i);
            moves += "mov.b32 " + constant + ", " + operands[i] + "; ";
            operands[i] = constant;
        }
    }
    const std::string sums = call.result.substr(1, call.result.size() - 2);
    const size_t comma = sums.find(", ");
    const auto list = [&](size_t begin, size_t end) {
        std::string result;
        for (size_t i = begin; i < end; i++) {
            result += (i == begin ? "{" : ",") + operands[i];
        }
        return result + "}";
    };
    const Instruction &found = find_instruction([&](const Instruction &one) { return call.name == one.suffix; });
    return "{ .reg .b32 %k<10>; .reg .b32 %m<4>; " + moves + found.text + " {%m0,%m1,%m2,%m3}, " + list(0, 4) + ", " +
           list(4, 6) + ", " + list(6, 10) + "; mov.b64 " + sums.substr(0, comma) + ", {%m0,%m1}; mov.b64 " +
           sums.substr(comma + 2) + ", {%m2,%m3}; }";
}

// Kernels with instructions get no more registers than blocks of so many threads can have.
std::string limit_registers(std::string ptx, int threads) {
    // A multiprocessor's four parts have 16384 registers each, which warps get by eights.
    const int warps = (std::max(threads, 1) + 127) / 128, registers = 16384 / 32 / warps / 8 * 8;
    if (registers > 255) {
        return ptx;
    }
    constexpr const char *instruction = "mma.sync.";
    for (size_t at = ptx.rfind(instruction); at != std::string::npos; at = ptx.rfind(instruction, at)) {
        at = ptx.rfind("\n{\n", at);  // where the kernel's body begins
        ptx.insert(at, "\n.maxnreg " + std::to_string(registers));
    }
    return ptx;
}

}  // namespace

void use_mma(Halide::Module &module, int threads) {
    rewrite_ptx(module, [threads](const std::string &ptx) {
        return limit_registers(replace_calls(ptx, all_sums, instruction_of), threads);
    });
}

}  // namespace kiln
