// Local response normalization: x / (bias + alpha / size * sum of squares of neighbours) ^ beta.
#include "expressions/elementwise/strict_math.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/parameters.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Internal::make_const;

// Sums of more neighbours are written as loops in ONNX models, if anywhere.
constexpr int64_t most_neighbours = 64;

class Lrn : public Operation {
  public:
    Lrn(const OperationTensors &tensors, TextReader &reader) : type_(tensors.output.type) {
        require_inputs(tensors, reader, 1, 1);
        require_alike(tensors, reader);
        require_floats(tensors, reader);
        axes_ = read_axes(reader, tensors.output.shape.size());
        if (axes_.size() != 1) {
            reader.fail("neighbours are along one axis");
        }
        reader.expect("-n");
        size_ = reader.integer("how many neighbours");
        if (size_ < 1 || size_ > most_neighbours) {
            reader.fail("neighbours are 1 to " + std::to_string(most_neighbours));
        }
        alpha_ = number(reader, "-alpha");
        beta_ = number(reader, "-beta");
        bias_ = number(reader, "-bias");
        std::vector<Loop> loops = loops_over(tensors.output, {});
        loops[loops.size() - 1 - axes_[0]].fixed = true;
        loops_ = merge_loops(loops);
    }

    std::string parameters() const override {
        return print_axes(axes_) + "-n" + std::to_string(size_) + "-alpha" + alpha_.text + "-beta" + beta_.text +
               "-bias" + bias_.text;
    }
    std::vector<int64_t> extents() const override { return extents_of(loops_); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const std::vector<Halide::Var> at = vars_of(loops_);
        size_t along = 0;
        while (!loops_[along].fixed) {
            along++;
        }
        const Halide::Type type = compute_type(type_);
        Expr sum = make_const(type, 0);
        for (int64_t i = 0; i < size_; i++) {
            Exprs step = exprs(at);
            const Expr position = step[along] + static_cast<int32_t>(i - (size_ - 1) / 2);
            const int32_t last = static_cast<int32_t>(loops_[along].extent) - 1;
            step[along] = Halide::clamp(Halide::likely(position), 0, last);
            const Expr value = element_at(inputs[0], type_, place_of(loops_, 0, step));
            sum = sum +
                  Halide::select(position >= 0 && position <= last, Halide::likely(value * value), make_const(type, 0));
        }
        const Expr base =
            strict::add(make_const(type, bias_.value), strict::mul(make_const(type, alpha_.value / size_), sum));
        const Expr value = element_at(inputs[0], type_, place_of(loops_, 0, exprs(at)));
        Func out("out");
        out(at) = store_element(type_, strict::div(value, power(base)));
        schedule_elements(out, extents(), lanes_of(target, type), 2.0 * static_cast<double>(size_) + 30);
        return out;
    }

  private:
    using Exprs = std::vector<Expr>;

    static TextNumber number(TextReader &reader, const char *key) {
        reader.expect(key);
        return reader.number(key);
    }

    Expr power(const Expr &base) const {
        if (beta_.value == 0.75) {
            const Expr root = strict::sqrt(base);
            return strict::mul(root, strict::sqrt(root));
        }
        return beta_.value == 0.5 ? strict::sqrt(base)
               : beta_.value == 1 ? base
                                  : strict::pow(base, make_const(base.type(), beta_.value));
    }

    ElementType type_;
    std::vector<int64_t> axes_;
    int64_t size_ = 1;
    TextNumber alpha_, beta_, bias_;
    std::vector<Loop> loops_;
};

}  // namespace

std::unique_ptr<const Operation> read_lrn(const OperationKind &, const OperationTensors &tensors, TextReader &reader) {
    return std::make_unique<const Lrn>(tensors, reader);
}

}  // namespace kiln
