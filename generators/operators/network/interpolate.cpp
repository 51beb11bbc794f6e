// Each output element from a few input elements on some axes, which ones and how much of each being in tables.
#include "expressions/arithmetic.h"
#include "expressions/elementwise/strict_math.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/parameters.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;
using Halide::Internal::make_const;
using Exprs = std::vector<Expr>;

constexpr int64_t most_taps = 4096;

class Interpolate : public Operation {
  public:
    Interpolate(const OperationTensors &tensors, TextReader &reader) : tensors_(tensors) {
        axes_ = read_axes(reader, tensors.inputs[0].shape.size());
        weighs_ = tensors.inputs.size() > 1 && tensors.inputs[1].shape.size() == 2;
        if (reader.accept("-v")) {
            has_outside_ = true;
            outside_ = reader.number("the value outside");
        }
        check(reader);
        const std::vector<int64_t> strides = tensors.inputs[0].strides();
        std::vector<Loop> loops;
        for (size_t axis = tensors.output.shape.size(); axis-- > 0;) {
            loops.push_back({tensors.output.shape[axis], {strides[axis]}, false, contains(axes_, axis)});
        }
        loops_ = merge_loops(loops);
    }

    std::string parameters() const override { return print_axes(axes_) + (has_outside_ ? "-v" + outside_.text : ""); }
    std::vector<int64_t> extents() const override { return extents_of(loops_); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const std::vector<Var> at = vars_of(loops_);
        const ElementType type = tensors_.output.type;
        const int lanes = lanes_of(target, weighs_ ? compute_type(type) : storage_type(type));
        Func out("out");
        if (!weighs_) {
            Exprs step = exprs(at);
            for (size_t i = 0; i < axes_.size(); i++) {
                const size_t d = loop_of(i);
                step[d] = bounded(inputs[1 + i](at[d]), i);
            }
            const Expr value = inputs[0](place_of(loops_, 0, step));
            out(at) = has_outside_ ? Halide::select(is_outside(inputs, at), stored_outside(), value) : value;
            schedule_elements(out, extents(), lanes, 2);
            return out;
        }
        return weighted(inputs, at, lanes);
    }

  private:
    void check(const TextReader &reader) const {
        const OperationTensor &in = tensors_.inputs[0], &out = tensors_.output;
        const size_t tables = weighs_ ? 2 : 1;
        require_inputs(tensors_, reader, 1 + tables * axes_.size(), 1 + tables * axes_.size());
        if (in.type != out.type || in.shape.size() != out.shape.size()) {
            reader.fail("the output has not the input's type and number of axes");
        }
        if (weighs_) {
            require_floats({{in}, out}, reader);
        }
        for (size_t axis = 0; axis < in.shape.size(); axis++) {
            if (in.shape[axis] < 1 || (!contains(axes_, axis) && in.shape[axis] != out.shape[axis])) {
                reader.fail("sizes differ where nothing is interpolated, or the input is empty");
            }
        }
        for (size_t i = 0; i < axes_.size(); i++) {
            const OperationTensor &index = tensors_.inputs[1 + tables * i];
            const bool fits =
                index.type == ElementType::s32 && index.shape.size() == tables && index.shape[0] == out.shape[axes_[i]];
            const bool weighs = !weighs_ || (tensors_.inputs[2 + 2 * i].type == ElementType::f32 &&
                                             tensors_.inputs[2 + 2 * i].shape == index.shape);
            if (!fits || !weighs || (weighs_ && (index.shape[1] < 1 || index.shape[1] > most_taps))) {
                reader.fail("tables are s32 and f32 of the output's size, and of taps where there are weights");
            }
        }
    }

    // The loop of an axis of axes_.
    size_t loop_of(size_t i) const {
        size_t fixed = axes_.size() - 1 - i, d = 0;
        while (!loops_[d].fixed || fixed-- > 0) {
            d++;
        }
        return d;
    }

    int32_t size_of(size_t i) const { return static_cast<int32_t>(tensors_.inputs[0].shape[axes_[i]]); }
    Expr bounded(const Expr &index, size_t i) const { return Halide::clamp(index, 0, size_of(i) - 1); }

    Expr is_outside(const std::vector<Func> &inputs, const std::vector<Var> &at) const {
        Expr result = Halide::Internal::const_false();
        for (size_t i = 0; i < axes_.size(); i++) {
            const int32_t taps = weighs_ ? static_cast<int32_t>(taps_of(i)) : 1;
            result = result || inputs[1 + i * (weighs_ ? 2 : 1)](at[loop_of(i)] * taps) < 0;
        }
        return result;
    }

    Expr stored_outside() const {
        const Halide::Type type = compute_type(tensors_.output.type);
        return store_element(tensors_.output.type, make_const(type, outside_.value));
    }

    int64_t taps_of(size_t i) const { return tensors_.inputs[1 + 2 * i].shape[1]; }

    // One axis after the other, the outermost first: what one makes the next reads.
    Func weighted(const std::vector<Func> &inputs, const std::vector<Var> &at, int lanes) const {
        const ElementType type = tensors_.output.type;
        const Halide::Type computed = compute_type(type);
        std::function<Expr(const Exprs &)> value = [&](const Exprs &step) {
            return element_at(inputs[0], type, place_of(loops_, 0, step));
        };
        std::vector<Func> stages;
        Func out("out");
        double cost = 2;
        for (size_t i = 0; i < axes_.size(); i++) {
            const size_t d = loop_of(i);
            const int32_t taps = static_cast<int32_t>(taps_of(i));
            const auto tap = [&](const Expr &t) {
                Exprs step = exprs(at);
                const Expr entry = at[d] * taps + t;
                step[d] = bounded(inputs[1 + 2 * i](entry), i);
                return value(step) * Halide::cast(computed, inputs[2 + 2 * i](entry));
            };
            Func stage("axis" + std::to_string(i));
            if (taps <= 4) {
                Expr sum = tap(0);
                for (int32_t t = 1; t < taps; t++) {
                    sum = sum + tap(t);
                }
                stage(at) = sum;
            } else {
                const Halide::RDom r(0, taps, "taps");
                stage(at) = make_const(computed, 0);
                stage(at) += tap(r.x);
            }
            cost += 2.0 * taps;
            stages.push_back(stage);
            value = [stage](const Exprs &step) { return stage(step); };
        }
        const Expr result = store_element(type, value(exprs(at)));
        out(at) = has_outside_ ? Halide::select(is_outside(inputs, at), stored_outside(), result) : result;
        schedule_weighted(out, stages, lanes, cost);
        return out;
    }

    // Rows of the innermost interpolated axis are made from rows that the other axes made.
    void schedule_weighted(Func out, std::vector<Func> &stages, int lanes, double cost) const {
        const std::vector<Var> at = out.args();
        const size_t last = loop_of(axes_.size() - 1);
        const int width = lanes_within(loops_[0].extent, lanes);
        const Var vectors("vectors"), lane("lane"), here("here");
        if (width > 1) {
            out.split(at[0], vectors, lane, width, tail_of(width)).vectorize(lane);
        }
        std::vector<Shared> rows;
        double total = cost;
        for (size_t d = loops_.size(); d-- > 0;) {
            total *= static_cast<double>(loops_[d].extent);
            if (d > last) {
                rows.push_back({at[d], loops_[d].extent});
            }
        }
        if (!rows.empty()) {
            out.split(rows.back().var, rows.back().var, here, 1);
        }
        for (size_t i = 0; i < stages.size(); i++) {
            const bool is_last = i + 1 == stages.size();
            const bool sums = stages[i].num_update_definitions() > 0;
            if (is_last && !sums) {
                continue;  // it is written as the output's own expression
            }
            if (rows.empty()) {
                stages[i].compute_root();
            } else {
                stages[i].compute_at(out, here);
            }
            const Var first = stages[i].args()[0];
            stages[i].vectorize(first, width, Halide::TailStrategy::RoundUp);
            if (sums) {
                stages[i].update().vectorize(first, width, Halide::TailStrategy::GuardWithIf);
            }
        }
        share_pieces(out, rows, total);
    }

    Halide::TailStrategy tail_of(int width) const {
        return loops_[0].extent % width == 0 ? Halide::TailStrategy::RoundUp : Halide::TailStrategy::ShiftInwards;
    }

    OperationTensors tensors_;
    std::vector<int64_t> axes_;
    bool weighs_ = false, has_outside_ = false;
    TextNumber outside_;
    std::vector<Loop> loops_;
};

}  // namespace

std::unique_ptr<const Operation> read_interpolate(const OperationKind &, const OperationTensors &tensors,
                                                  TextReader &reader) {
    return std::make_unique<const Interpolate>(tensors, reader);
}

}  // namespace kiln
