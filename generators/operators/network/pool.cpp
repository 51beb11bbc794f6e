// Maxima, averages and norms of windows along some axes.
#include "expressions/arithmetic.h"
#include "expressions/elementwise/strict_math.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/gathering.h"
#include "operators/network/loops/parameters.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;
using Halide::Internal::make_const;

// An axis that windows move along.
struct Window {
    int64_t kernel, stride, dilation, pad_begin, pad_end, in, out, in_stride;
    bool pads() const { return pad_begin > 0 || (out - 1) * stride + (kernel - 1) * dilation - pad_begin >= in; }
};

class Pool : public Operation {
  public:
    Pool(const OperationKind &kind, const OperationTensors &tensors, TextReader &reader)
        : variant_(kind.variant), type_(tensors.inputs[0].type) {
        require_inputs(tensors, reader, 1, 1);
        axes_ = read_axes(reader, tensors.inputs[0].shape.size());
        kernel_ = numbers(reader, "-k", axes_.size());
        stride_ = numbers(reader, "-s", axes_.size());
        dilation_ = numbers(reader, "-d", axes_.size());
        pad_begin_ = numbers(reader, "-p", axes_.size());
        if (variant_ == "average" && reader.accept("-q")) {
            pad_end_ = counted(reader, axes_.size());
        }
        if (variant_ == "lp") {
            reader.expect("-n");
            power_ = reader.number("the norm's power");
        }
        if (variant_ == "argmax") {
            index_strides_ = numbers(reader, "-i", tensors.inputs[0].shape.size());
        }
        check(tensors, reader);
        make_loops(tensors);
    }

    std::string parameters() const override {
        return print_axes(axes_) + "-k" + join(kernel_, 'x') + "-s" + join(stride_, 'x') + "-d" + join(dilation_, 'x') +
               "-p" + join(pad_begin_, 'x') + (pad_end_.empty() ? "" : "-q" + join(pad_end_, 'x')) +
               (variant_ == "lp" ? "-n" + power_.text : "") +
               (index_strides_.empty() ? "" : "-i" + join(index_strides_, 'x'));
    }
    std::vector<int64_t> extents() const override { return kept_of(loops_, extents_of(loops_)); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const int lanes = std::min(lanes_of(target, storage_type(type_)), lanes_of(target, compute_type(type_)));
        const std::vector<Var> kept = kept_of(loops_, vars_of(loops_));
        Func out("out");
        const Gathered stage = gathered(inputs[0], lanes);
        out(kept) = finish(stage(exprs(kept)), exprs(kept));
        const int64_t extent = extents()[0];
        const int64_t wide = loops_[0].fixed ? 1 : 4;
        const int64_t tile = extent >= wide * lanes ? wide * lanes
                             : extent >= lanes      ? lanes
                                                    : lanes_within(extent, lanes);
        int64_t taps = 1;
        for (const Window &window : windows_) {
            taps *= window.kernel;
        }
        const Var here = schedule_tiles(out, extents(), lanes, static_cast<int>(tile), 2.0 * static_cast<double>(taps));
        stage.compute_at(out, here, tile);
        return out;
    }

  private:
    static std::vector<int64_t> counted(TextReader &reader, size_t count) {
        const std::vector<int64_t> result = reader.integers('x', "a number of the windows");
        if (result.size() != count) {
            reader.fail("expected " + std::to_string(count) + " numbers");
        }
        return result;
    }
    static std::vector<int64_t> numbers(TextReader &reader, const char *key, size_t count) {
        reader.expect(key);
        return counted(reader, count);
    }

    void check(const OperationTensors &tensors, const TextReader &reader) const {
        const OperationTensor &in = tensors.inputs[0], &out = tensors.output;
        if (out.type != (variant_ == "argmax" ? ElementType::s64 : type_) || type_ == ElementType::boolean) {
            reader.fail("the output has the input's type, places s64, and neither is bool");
        }
        if (variant_ != "max" && variant_ != "argmax") {
            require_floats(tensors, reader);
        }
        if (in.shape.size() != out.shape.size()) {
            reader.fail("the output has not as many axes as the input");
        }
        for (size_t axis = 0; axis < in.shape.size(); axis++) {
            if (!contains(axes_, axis) && in.shape[axis] != out.shape[axis]) {
                reader.fail("sizes differ where there is no window");
            }
        }
        for (size_t i = 0; i < axes_.size(); i++) {
            if (kernel_[i] < 1 || stride_[i] < 1 || dilation_[i] < 1 || pad_begin_[i] < 0 || in.shape[axes_[i]] < 1 ||
                (kernel_[i] - 1) * dilation_[i] > INT32_MAX / 8 || stride_[i] > INT32_MAX / 8 ||
                pad_begin_[i] > INT32_MAX / 8) {
                reader.fail("kernels, strides, dilations and sizes are above 0, pads not below");
            }
        }
    }

    void make_loops(const OperationTensors &tensors) {
        const OperationTensor &in = tensors.inputs[0];
        const std::vector<int64_t> strides = in.strides();
        std::vector<Loop> loops;
        for (size_t axis = in.shape.size(); axis-- > 0;) {
            const int64_t index = index_strides_.empty() ? 0 : index_strides_[axis];
            loops.push_back({tensors.output.shape[axis], {strides[axis], index}, false, contains(axes_, axis)});
        }
        loops_ = merge_loops(loops);
        for (size_t i = axes_.size(); i-- > 0;) {
            const int64_t axis = axes_[i];
            windows_.push_back({kernel_[i], stride_[i], dilation_[i], pad_begin_[i], pad_end_.empty() ? 0 : pad_end_[i],
                                in.shape[axis], tensors.output.shape[axis], strides[axis]});
        }
    }

    // The windows' positions, of loops' steps and taps; the windows' order is the fixed loops'.
    Exprs positions(const Exprs &at, const Exprs &taps) const {
        Exprs result;
        for (size_t d = 0; d < loops_.size(); d++) {
            if (loops_[d].fixed) {
                const Window &window = windows_[result.size()];
                result.push_back(at[d] * static_cast<int32_t>(window.stride) +
                                 taps[result.size()] * static_cast<int32_t>(window.dilation) -
                                 static_cast<int32_t>(window.pad_begin));
            }
        }
        return result;
    }

    // Where loops' steps lie on one of their tensors, a window's position taking the place of its loop's step.
    Expr place(const Exprs &at, const Exprs &positions, size_t tensor) const {
        Exprs steps = at;
        size_t window = 0;
        for (size_t d = 0; d < loops_.size(); d++) {
            if (loops_[d].fixed) {
                steps[d] = positions[window++];
            }
        }
        return place_of(loops_, tensor, steps);
    }

    Gathering gathering() const {
        const Halide::Type type = compute_type(type_);
        return variant_ == "max"      ? gather_max(type)
               : variant_ == "argmax" ? gather_place(type, true, false)
                                      : gather_sum(type);
    }

    Expr norm_part(const Expr &value) const {
        if (variant_ == "l1") {
            return strict::abs(value);
        }
        if (variant_ == "l2") {
            return value * value;
        }
        return variant_ == "lp" ? strict::pow(strict::abs(value), make_const(value.type(), power_.value)) : value;
    }

    // Taps beyond the input are left out: along outer loops by a branch, along the innermost, where a vector has both,
    // lane by lane.
    Gathered gathered(const Func &input, int lanes) const {
        Halide::Region region;
        for (const Window &window : windows_) {
            region.emplace_back(0, static_cast<int32_t>(window.kernel));
        }
        Halide::RDom taps(region, "taps");
        Exprs tap_at;
        for (const Window &window : windows_) {
            tap_at.emplace_back(taps[static_cast<int>(&window - &windows_[0])]);
        }
        const std::vector<Var> kept = kept_of(loops_, vars_of(loops_));
        const Exprs at = exprs(kept);
        Exprs where = positions(at, tap_at);
        Expr inside = Halide::Internal::const_true();
        for (size_t i = 0; i < where.size(); i++) {
            const int32_t size = static_cast<int32_t>(windows_[i].in);
            if (!windows_[i].pads()) {
                continue;
            }
            const Expr is_inside = where[i] >= 0 && where[i] < size;
            if (i == 0 && loops_[0].fixed) {
                inside = is_inside;
                where[i] = Halide::clamp(Halide::likely(where[i]), 0, size - 1);
            } else {
                taps.where(is_inside);
                where[i] = Halide::unsafe_promise_clamped(where[i], 0, size - 1);
            }
        }
        const Gathering gathering = this->gathering();
        Gathered result = {Func("window"), Func(), gathering, lanes};
        const Expr value = norm_part(element_at(input, type_, place(at, where, 0)));
        Exprs values = gathering.begin(value, place(at, where, 1));
        for (size_t i = 0; i < values.size(); i++) {
            values[i] = Halide::Internal::is_const_one(inside)
                            ? values[i]
                            : Halide::select(inside, Halide::likely(values[i]), gathering.identity[i]);
        }
        define_and_add(result.total, kept, gathering, values);
        return result;
    }

    // How many taps of a window at a step are counted: those inside, or, where padding counts, inside that.
    Expr count(const Exprs &at) const {
        Expr total = 1;
        size_t i = 0;
        for (size_t d = 0; d < loops_.size(); d++) {
            if (!loops_[d].fixed) {
                continue;
            }
            const Window &w = windows_[i++];
            const auto number = [](int64_t n) { return Expr(static_cast<int32_t>(n)); };
            const int64_t low = pad_end_.empty() ? 0 : -w.pad_begin, high = w.in + w.pad_end;
            const Expr begin = at[d] * number(w.stride) - number(w.pad_begin);
            const Expr first = Halide::max(0, (number(low) - begin + number(w.dilation - 1)) / number(w.dilation));
            const Expr last =
                Halide::min(number(w.kernel), (number(high) - begin + number(w.dilation - 1)) / number(w.dilation));
            total = total * (w.pads() ? last - first : number(w.kernel));
        }
        return Halide::max(1, total);
    }

    Expr finish(const Expr &value, const Exprs &at) const {
        if (variant_ == "argmax") {
            return Halide::cast<int64_t>(Halide::max(0, value));
        }
        if (variant_ == "average") {
            return store_element(type_, strict::div(value, Halide::cast(value.type(), count(at))));
        }
        if (variant_ == "lp") {
            return store_element(type_, strict::pow(value, make_const(value.type(), 1 / power_.value)));
        }
        return store_element(type_, variant_ == "l2" ? strict::sqrt(value) : value);
    }

    std::string variant_;
    ElementType type_;
    std::vector<int64_t> axes_, kernel_, stride_, dilation_, pad_begin_, pad_end_, index_strides_;
    TextNumber power_;
    std::vector<Loop> loops_;
    std::vector<Window> windows_;  // the innermost first
};

}  // namespace

std::unique_ptr<const Operation> read_pool(const OperationKind &kind, const OperationTensors &tensors,
                                           TextReader &reader) {
    return std::make_unique<const Pool>(kind, tensors, reader);
}

}  // namespace kiln
