// (x - mean) / sqrt(variance + epsilon) * scale + shift, mean and variance over some axes; or, without the mean, by the
// root of the mean square.
#include "expressions/elementwise/strict_math.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/parameters.h"
#include "operators/network/loops/rows.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Internal::make_const;

class Normalize : public Operation {
  public:
    Normalize(const OperationKind &kind, const OperationTensors &tensors, TextReader &reader)
        : is_rms_(std::string(kind.variant) == "rms"), tensors_(tensors) {
        require_inputs(tensors, reader, 1, 3);
        require_alike(tensors, reader);
        require_floats(tensors, reader);
        axes_ = read_axes(reader, tensors.inputs[0].shape.size());
        reader.expect("-e");
        epsilon_ = reader.number("epsilon");
        std::vector<Loop> loops = loops_over(tensors.inputs[0], axes_);
        for (size_t i = 1; i < tensors.inputs.size(); i++) {
            const std::vector<int64_t> strides = broadcast_strides(tensors.inputs[i], tensors.output.shape, reader);
            for (size_t d = 0; d < loops.size(); d++) {
                loops[d].strides.push_back(strides[strides.size() - 1 - d]);
            }
        }
        loops_ = row_loops(loops);
    }

    std::string parameters() const override { return print_axes(axes_) + "-e" + epsilon_.text; }
    std::vector<int64_t> extents() const override { return extents_of(loops_); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const ElementType type = tensors_.output.type;
        const Halide::Type computed = compute_type(type);
        const int lanes = lanes_of(target, computed);
        const std::vector<Halide::Var> at = vars_of(loops_), kept = kept_of(loops_, at);
        const auto operand = [&](size_t i, const Exprs &step) {
            return element_at(inputs[i], tensors_.inputs[i].type, place_of(loops_, i, step));
        };
        const Expr count = make_const(computed, count_reduced(loops_));
        const Gathered sum =
            gather("sum", loops_, gather_sum(computed), lanes, [&](const Exprs &s) { return operand(0, s); });
        Func mean("mean"), factor("factor"), out("out");
        mean(kept) = strict::div(sum(exprs(kept)), count);
        const auto centred = [&](const Exprs &step) {
            return is_rms_ ? operand(0, step) : strict::sub(operand(0, step), mean(kept_of(loops_, step)));
        };
        const Gathered squares = gather("squares", loops_, gather_sum(computed), lanes,
                                        [&](const Exprs &step) { return centred(step) * centred(step); });
        const Expr variance =
            strict::add(strict::div(squares(exprs(kept)), count), make_const(computed, epsilon_.value));
        factor(kept) = strict::div(make_const(computed, 1), strict::sqrt(variance));
        Expr value = strict::mul(centred(exprs(at)), factor(exprs(kept)));
        for (size_t i = 1; i < inputs.size(); i++) {
            value = i == 1 ? strict::mul(value, operand(i, exprs(at))) : strict::add(value, operand(i, exprs(at)));
        }
        out(at) = store_element(type, value);
        Rows rows(loops_, lanes);
        rows.schedule_output(out, 8);
        if (!is_rms_) {
            rows.compute(sum);
            rows.compute_of_row(mean);
        }
        rows.compute(squares);
        rows.compute_of_row(factor);
        return out;
    }

  private:
    bool is_rms_;
    OperationTensors tensors_;
    std::vector<int64_t> axes_;
    TextNumber epsilon_;
    std::vector<Loop> loops_;
};

}  // namespace

std::unique_ptr<const Operation> read_normalize(const OperationKind &kind, const OperationTensors &tensors,
                                                TextReader &reader) {
    return std::make_unique<const Normalize>(kind, tensors, reader);
}

}  // namespace kiln
