// Batched products of matrices, both of which are computed: alpha * A * B + beta * C.
#include <optional>

#include "expressions/arithmetic.h"
#include "expressions/elementwise/strict_math.h"
#include "moves/tail_strategy.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/behind.h"
#include "operators/network/loops/loops.h"
#include "operators/network/loops/parameters.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;
using Halide::Internal::make_const;
using Exprs = std::vector<Expr>;

class Matmul : public Operation {
  public:
    Matmul(const OperationTensors &tensors, TextReader &reader) : tensors_(tensors) {
        reader.expect("-");
        transposes_a_ = transposes(reader);
        transposes_b_ = transposes(reader);
        if (reader.accept("-alpha")) {
            scales_ = true;
            alpha_ = reader.number("alpha");
            reader.expect("-beta");
            beta_ = reader.number("beta");
        }
        has_zero_points_ = reader.accept("-z");
        behind_.emplace(tensors, reader);
        check(reader);
        read_sizes(reader);
    }

    std::string parameters() const override {
        return std::string("-") + (transposes_a_ ? "t" : "n") + (transposes_b_ ? "t" : "n") +
               (scales_ ? "-alpha" + alpha_.text + "-beta" + beta_.text : "") + (has_zero_points_ ? "-z" : "") +
               behind_->text();
    }
    std::vector<int64_t> extents() const override { return extents_of(loops_); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const std::vector<Var> at = vars_of(loops_);
        const Halide::Type type = compute_type(tensors_.output.type);
        const int lanes = lanes_of(target, type);
        // B as rows along the output's own, where it does not lie so.
        Func rows("rows"), product("product"), out("out");
        std::vector<Var> rows_at = at;
        rows_at[1] = Var("k");
        rows(rows_at) = operand(inputs, 1, exprs(rows_at), place_b(exprs(rows_at), rows_at[1]));
        Exprs steps = exprs(at);
        const RDom k(0, static_cast<int32_t>(k_), "depth");
        Exprs rows_steps = steps;
        rows_steps[1] = k.x;
        product(at) = make_const(type, 0);
        if (k_ > 0) {
            product(at) += operand(inputs, 0, steps, place_a(steps, k.x)) * rows(rows_steps);
        }
        Expr value = product(at);
        if (scales_ && alpha_.value != 1) {
            value = strict::mul(value, make_const(type, alpha_.value));
        }
        if (addend() > 0) {
            const Expr other =
                element_at(inputs[addend()], tensors_.inputs[addend()].type, place_of(loops_, addend(), steps));
            value = strict::add(
                value, scales_ && beta_.value != 1 ? strict::mul(other, make_const(type, beta_.value)) : other);
        }
        Exprs others;
        for (size_t i = behind_->own(); i < inputs.size(); i++) {
            others.push_back(element_at(inputs[i], tensors_.inputs[i].type, place_of(loops_, i, steps)));
        }
        out(at) = store_element(tensors_.output.type, behind_->of(value, others));
        schedule(out, product, rows, target, lanes);
        return out;
    }

  private:
    static bool transposes(TextReader &reader) {
        if (reader.accept("t")) {
            return true;
        }
        reader.expect("n");
        return false;
    }

    // The input that is added; 0 where there is none.
    size_t addend() const { return behind_->own() == 3 && !has_zero_points_ ? 2 : 0; }

    void check(const TextReader &reader) const {
        OperationTensors own = tensors_;
        own.inputs.resize(behind_->own());
        require_inputs(own, reader, has_zero_points_ ? 4 : 2, has_zero_points_ ? 4 : 3);
        const auto is_byte = [](ElementType type) { return type == ElementType::s8 || type == ElementType::u8; };
        const ElementType a = tensors_.inputs[0].type, b = tensors_.inputs[1].type, out = tensors_.output.type;
        const bool is_quantized = is_byte(a) && is_byte(b) && out == ElementType::s32;
        if (!is_quantized && (has_zero_points_ || a != b || a != out || is_byte(a) || a == ElementType::boolean)) {
            reader.fail("both sides have the output's type, or are bytes with an output of s32");
        }
        if (has_zero_points_ && (tensors_.inputs[2].type != a || tensors_.inputs[3].type != b)) {
            reader.fail("zero points have their side's type");
        }
        if (tensors_.inputs[0].shape.size() < 2 || tensors_.inputs[1].shape.size() < 2 ||
            tensors_.output.shape.size() < 2) {
            reader.fail("a matrix has at least two axes");
        }
    }

    // Loops over the output: along a row, over rows, and batches. Strides of a and b are those of batches alone.
    void read_sizes(const TextReader &reader) {
        const std::vector<int64_t> &a = tensors_.inputs[0].shape, &b = tensors_.inputs[1].shape,
                                   &out = tensors_.output.shape;
        const size_t rank = out.size();
        const auto side = [](const std::vector<int64_t> &shape, bool last) {
            return shape[shape.size() - (last ? 1 : 2)];
        };
        m_ = side(out, false), n_ = side(out, true), k_ = side(a, !transposes_a_);
        if (side(a, transposes_a_) != m_ || side(b, !transposes_b_) != n_ || side(b, transposes_b_) != k_) {
            reader.fail("the matrices' sizes do not fit");
        }
        std::vector<int64_t> batch(out.begin(), out.end() - 2);
        std::vector<std::vector<int64_t>> strides;
        for (size_t i = 0; i < 2; i++) {
            // Batches are broadcast, what lies in one counting as its elements.
            OperationTensor batches = tensors_.inputs[i];
            const int64_t size = side(batches.shape, false) * side(batches.shape, true);
            batches.shape.resize(batches.shape.size() - 2);
            strides.push_back(broadcast_strides(batches, batch, reader));
            for (int64_t &stride : strides.back()) {
                stride *= size;
            }
            strides.back().insert(strides.back().end(), {0, 0});
        }
        for (size_t i = 2; i < tensors_.inputs.size(); i++) {
            const bool is_point = has_zero_points_ && i < behind_->own();
            strides.push_back(is_point ? std::vector<int64_t>(rank, 0)
                                       : broadcast_strides(tensors_.inputs[i], out, reader));
        }
        std::vector<Loop> loops;
        for (size_t axis = rank; axis-- > 0;) {
            Loop loop = {out[axis], {}, false, axis + 2 >= rank};
            for (const std::vector<int64_t> &of_tensor : strides) {
                loop.strides.push_back(of_tensor[axis]);
            }
            loops.push_back(loop);
        }
        loops_ = merge_loops(loops);
    }

    Expr place_a(const Exprs &at, const Expr &k) const {
        const Expr row = at[1];
        const Expr in_matrix = transposes_a_ ? k * static_cast<int32_t>(m_) + row : row * static_cast<int32_t>(k_) + k;
        return batch_place(0, at) + in_matrix;
    }
    Expr place_b(const Exprs &at, const Expr &k) const {
        const Expr in_matrix =
            transposes_b_ ? at[0] * static_cast<int32_t>(k_) + k : k * static_cast<int32_t>(n_) + at[0];
        return batch_place(1, at) + in_matrix;
    }
    Expr batch_place(size_t tensor, const Exprs &at) const {
        Expr place = 0;
        for (size_t d = 2; d < loops_.size(); d++) {
            place = place + at[d] * static_cast<int32_t>(loops_[d].strides[tensor]);
        }
        return place;
    }

    // An element less its zero point, of which there is one, or one for each row of A or column of B.
    Expr operand(const std::vector<Func> &inputs, size_t side, const Exprs &at, const Expr &place) const {
        const Halide::Type type = compute_type(tensors_.output.type);
        Expr value = Halide::cast(type, element_at(inputs[side], tensors_.inputs[side].type, place));
        if (has_zero_points_) {
            const bool is_one = tensors_.inputs[2 + side].elements() == 1;
            value = value - Halide::cast(type, inputs[2 + side](is_one ? Expr(0) : side == 0 ? at[1] : at[0]));
        }
        return value;
    }

    // Tiles of sums in registers; B's rows, where they do not lie as vectors read them, are transposed once a batch.
    void schedule(Func out, Func product, Func rows, const TargetModel &target, int lanes) const {
        const std::vector<Var> at = out.args();
        const int width = lanes_within(n_, lanes), vectors = n_ >= 2 * lanes ? 2 : 1;
        const int tile_n = width * vectors;
        const int registers = target.vector_registers - 1 - vectors;
        const int tile_m = static_cast<int>(std::min<int64_t>(m_, std::min(8, registers / vectors)));
        const Var j("j"), i("i"), jo("jo"), io("io"), here("here"), lane("lane"), vector("vector"), transposed("turn");
        out.split(at[0], jo, j, tile_n, tail(static_cast<int>(n_), tile_n))
            .split(at[1], io, i, tile_m, tail(static_cast<int>(m_), tile_m))
            .split(j, vector, lane, width)
            .split(jo, jo, here, 1);
        std::vector<Halide::VarOrRVar> order = {lane, vector, i, here, jo, io};
        std::vector<Shared> shared;
        double total = 2.0 * static_cast<double>(m_ * n_ * std::max<int64_t>(1, k_));
        for (size_t d = 2; d < at.size(); d++) {
            order.emplace_back(at[d]);
            shared.insert(shared.begin(), {at[d], loops_[d].extent});
            total *= static_cast<double>(loops_[d].extent);
        }
        const bool transposes = transposes_b_ && m_ > 1 && k_ > 0;
        if (transposes && !shared.empty()) {
            out.split(shared.back().var, shared.back().var, transposed, 1);
            order.insert(order.begin() + 6, transposed);
        }
        out.reorder(order).vectorize(lane).unroll(vector).unroll(i);
        if (transposes) {
            rows.vectorize(rows.args()[0], width, Halide::TailStrategy::ShiftInwards);
            if (shared.empty()) {
                rows.compute_root();
            } else {
                rows.compute_at(out, transposed);
            }
        }
        if (!transposes || shared.empty()) {
            shared.push_back({io, ceil_div<int64_t>(m_, tile_m)});
            shared.push_back({jo, ceil_div<int64_t>(n_, tile_n)});
        }
        share_pieces(out, shared, total);
        schedule_product(out, product, here, width);
    }

    void schedule_product(Func out, Func product, const Var &here, int width) const {
        const Var j = product.args()[0], i = product.args()[1];
        product.compute_at(out, here).store_in(Halide::MemoryType::Stack).vectorize(j, width).unroll(j).unroll(i);
        if (k_ > 0) {
            const Var lane("lane"), vector("vector");
            const Halide::RVar k(product.function().update(0).schedule().rvars()[0].var);
            product.update()
                .split(j, vector, lane, width)
                .reorder(lane, vector, i, k)
                .vectorize(lane)
                .unroll(vector)
                .unroll(i);
        }
    }

    OperationTensors tensors_;
    bool transposes_a_ = false, transposes_b_ = false, scales_ = false, has_zero_points_ = false;
    TextNumber alpha_ = {1, "1"}, beta_ = {1, "1"};
    std::optional<Behind> behind_;
    int64_t m_ = 1, n_ = 1, k_ = 1;
    std::vector<Loop> loops_;
};

}  // namespace

std::unique_ptr<const Operation> read_matmul(const OperationKind &, const OperationTensors &tensors,
                                             TextReader &reader) {
    return std::make_unique<const Matmul>(tensors, reader);
}

}  // namespace kiln
