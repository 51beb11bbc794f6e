// softmax, its logarithm, and hardmax, over some axes.
#include "expressions/elementwise/strict_math.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/parameters.h"
#include "operators/network/loops/rows.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Internal::make_const;

class Softmax : public Operation {
  public:
    Softmax(const OperationKind &kind, const OperationTensors &tensors, TextReader &reader)
        : variant_(kind.variant), type_(tensors.inputs[0].type) {
        require_inputs(tensors, reader, 1, 1);
        require_alike(tensors, reader);
        require_floats(tensors, reader);
        axes_ = read_axes(reader, tensors.inputs[0].shape.size());
        loops_ = row_loops(loops_over(tensors.inputs[0], axes_));
    }

    std::string parameters() const override { return print_axes(axes_); }
    std::vector<int64_t> extents() const override { return extents_of(loops_); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const int lanes = lanes_of(target, compute_type(type_));
        const std::vector<Halide::Var> at = vars_of(loops_);
        const auto element = [&](const Exprs &step) { return element_at(inputs[0], type_, place_of(loops_, 0, step)); };
        return variant_ == "hardmax" ? hardmax(at, element, lanes) : softmax(at, element, lanes);
    }

  private:
    using Element = std::function<Expr(const Exprs &)>;

    // exp(x - m) / sum of exp(x - m), where m, the row's largest, keeps exp finite.
    Func softmax(const std::vector<Halide::Var> &at, const Element &element, int lanes) const {
        const Halide::Type type = compute_type(type_);
        const Gathered largest = gather("largest", loops_, gather_max(type), lanes, element);
        const auto difference = [&](const Exprs &step) {
            return strict::sub(element(step), largest(kept_of(loops_, step)));
        };
        Func powers("powers"), factor("factor"), out("out");
        powers(at) = strict::exp(difference(exprs(at)));
        const Gathered sum =
            gather("sum", loops_, gather_sum(type), lanes, [&](const Exprs &step) { return powers(step); });
        const std::vector<Halide::Var> kept = kept_of(loops_, at);
        const bool is_log = variant_ == "logsoftmax";
        factor(kept) = is_log ? strict::log(sum(exprs(kept))) : strict::div(make_const(type, 1), sum(exprs(kept)));
        const Expr of_row = factor(exprs(kept));
        out(at) =
            store_element(type_, is_log ? strict::sub(difference(exprs(at)), of_row) : strict::mul(powers(at), of_row));
        Rows rows(loops_, lanes);
        rows.schedule_output(out, 24);
        rows.compute(largest);
        if (!is_log) {
            rows.compute(powers);
        }
        rows.compute(sum);
        rows.compute_of_row(factor);
        return out;
    }

    // 1 for the first of the largest, 0 for others.
    Func hardmax(const std::vector<Halide::Var> &at, const Element &element, int lanes) const {
        const Halide::Type type = compute_type(type_);
        const Gathered first = gather("first", loops_, gather_place(type, true, false), lanes, element);
        Expr place = 0;
        for (size_t d = loops_.size(); d-- > 0;) {
            place = loops_[d].reduced ? place * static_cast<int32_t>(loops_[d].extent) + at[d] : place;
        }
        Func out("out");
        out(at) = store_element(type_, Halide::select(place == first(exprs(kept_of(loops_, at))), make_const(type, 1),
                                                      make_const(type, 0)));
        Rows rows(loops_, lanes);
        rows.schedule_output(out, 4);
        rows.compute(first);
        return out;
    }

    std::string variant_;
    ElementType type_;
    std::vector<int64_t> axes_;
    std::vector<Loop> loops_;
};

}  // namespace

std::unique_ptr<const Operation> read_softmax(const OperationKind &kind, const OperationTensors &tensors,
                                              TextReader &reader) {
    return std::make_unique<const Softmax>(kind, tensors, reader);
}

}  // namespace kiln
