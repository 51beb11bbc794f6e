// Sums, means, products, extremes and their places over some axes.
#include "expressions/arithmetic.h"
#include "expressions/elementwise/strict_math.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/gathering.h"
#include "operators/network/loops/parameters.h"
#include "operators/network/loops/rows.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;
using Halide::Internal::make_const;

class Reduce : public Operation {
  public:
    Reduce(const OperationKind &kind, const OperationTensors &tensors, TextReader &reader)
        : variant_(kind.variant), type_(tensors.inputs[0].type), output_(tensors.output.type) {
        require_inputs(tensors, reader, 1, 1);
        axes_ = read_axes(reader, tensors.inputs[0].shape.size());
        last_ = is_place() && reader.accept("-l");
        check(tensors, reader);
        loops_ = row_loops(loops_over(tensors.inputs[0], axes_));
    }

    std::string parameters() const override { return print_axes(axes_) + (last_ ? "-l" : ""); }
    std::vector<int64_t> extents() const override { return kept_of(loops_, extents_of(loops_)); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const int lanes = std::min(lanes_of(target, work_type()), lanes_of(target, storage_type(type_)));
        const std::vector<Var> kept = kept_of(loops_, vars_of(loops_));
        const auto element = [&](const Exprs &at) { return value_at(inputs[0], at); };
        Func out("out");
        const Exprs at = exprs(kept);
        std::vector<Gathered> stages;
        if (variant_ == "logsumexp") {
            stages.push_back(gather("largest", loops_, gather_max(work_type()), lanes, element));
            const auto power = [&](const Exprs &step) {
                return strict::exp(strict::sub(element(step), finite(stages[0](kept_of(loops_, step)))));
            };
            stages.push_back(gather("sum", loops_, gather_sum(work_type()), lanes, power));
            out(kept) = stored(strict::add(strict::log(stages[1](at)), finite(stages[0](at))));
        } else {
            stages.push_back(gather("total", loops_, gathering(), lanes, element));
            out(kept) = stored(finish(stages[0](at)));
        }
        const int64_t count = count_reduced(loops_), tile = loops_[0].reduced ? 1 : tile_of(lanes);
        const Var here = schedule_tiles(out, extents(), lanes, static_cast<int>(tile), static_cast<double>(count));
        for (const Gathered &stage : stages) {
            stage.compute_at(out, here, tile);
        }
        return out;
    }

  private:
    bool is_place() const { return variant_ == "argmax" || variant_ == "argmin"; }
    bool is_extreme() const { return variant_ == "max" || variant_ == "min"; }

    void check(const OperationTensors &tensors, const TextReader &reader) const {
        const ElementType wanted = is_place() ? ElementType::s64 : type_;
        if (output_ != wanted) {
            reader.fail("the output is of " + std::string(to_string(wanted)));
        }
        if (is_place() && axes_.size() != 1) {
            reader.fail("places are counted along one axis");
        }
        std::vector<int64_t> shape;
        for (size_t axis = 0; axis < tensors.inputs[0].shape.size(); axis++) {
            const int64_t size = contains(axes_, axis) ? 1 : tensors.inputs[0].shape[axis];
            if (size != 1) {
                shape.push_back(size);
            }
        }
        std::vector<int64_t> stated = tensors.output.shape;
        std::erase(stated, 1);
        if (stated != shape) {
            reader.fail("the output has not the shape of the axes that are left");
        }
        if (type_ == ElementType::boolean && !is_extreme()) {
            reader.fail("bool has no sums");
        }
    }

    // Several vectors side by side, where there are so many.
    int64_t tile_of(int lanes) const {
        const int64_t extent = extents()[0];
        return extent >= 4 * lanes ? 4 * lanes : extent >= lanes ? lanes : lanes_within(extent, lanes);
    }

    // A bool's extreme is that of its byte. Roots, logarithms and means of integers are taken of what float64 holds.
    Halide::Type work_type() const {
        const Halide::Type type = type_ == ElementType::boolean ? Halide::UInt(8) : compute_type(type_);
        const bool in_floats =
            variant_ == "l2" || variant_ == "logsum" || variant_ == "logsumexp" || variant_ == "mean";
        return type.is_float() || !in_floats ? type : Halide::Float(64);
    }

    Expr value_at(const Func &input, const Exprs &at) const {
        const Expr place = place_of(loops_, 0, at);
        const Expr value = type_ == ElementType::boolean ? Expr(input(place))
                                                         : Halide::cast(work_type(), element_at(input, type_, place));
        if (variant_ == "l1") {
            return strict::abs(value);
        }
        return variant_ == "l2" || variant_ == "sumsquare" ? value * value : value;
    }

    Gathering gathering() const {
        const Halide::Type type = work_type();
        return variant_ == "prod"                  ? gather_product(type)
               : is_extreme() && variant_ == "max" ? gather_max(type)
               : is_extreme()                      ? gather_min(type)
               : is_place()                        ? gather_place(type, variant_ == "argmax", last_)
                                                   : gather_sum(type);
    }

    Expr finish(const Expr &total) const {
        if (variant_ == "mean") {
            return strict::div(total, make_const(total.type(), count_reduced(loops_)));
        }
        return variant_ == "l2" ? strict::sqrt(total) : variant_ == "logsum" ? strict::log(total) : total;
    }

    static Expr finite(const Expr &largest) {
        return Halide::select(strict::is_inf(largest), make_const(largest.type(), 0), largest);
    }

    Expr stored(const Expr &value) const {
        if (is_place()) {
            return Halide::cast<int64_t>(Halide::max(value, 0));
        }
        if (type_ == ElementType::boolean) {
            return value;
        }
        const Halide::Type type = compute_type(type_);
        return store_element(type_, value.type() == type ? value : strict::saturating_cast(type, value));
    }

    std::string variant_;
    ElementType type_, output_;
    std::vector<int64_t> axes_;
    bool last_ = false;
    std::vector<Loop> loops_;
};

}  // namespace

std::unique_ptr<const Operation> read_reduce(const OperationKind &kind, const OperationTensors &tensors,
                                             TextReader &reader) {
    return std::make_unique<const Reduce>(kind, tensors, reader);
}

}  // namespace kiln
