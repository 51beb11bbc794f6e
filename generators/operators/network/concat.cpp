// Tensors one behind the other along an axis.
#include "expressions/arithmetic.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/parameters.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::RDom;

class Concat : public Operation {
  public:
    Concat(const OperationTensors &tensors, TextReader &reader) : type_(tensors.output.type) {
        const std::vector<int64_t> &shape = tensors.output.shape;
        axes_ = read_axes(reader, shape.size());
        if (axes_.size() != 1) {
            reader.fail("tensors lie behind each other along one axis");
        }
        int64_t inner = 1, total = 0;
        for (size_t axis = axes_[0] + 1; axis < shape.size(); axis++) {
            inner *= shape[axis];
        }
        for (const OperationTensor &input : tensors.inputs) {
            std::vector<int64_t> expected = shape;
            if (input.shape.size() != shape.size() || input.type != type_) {
                reader.fail("an input has not the output's type and number of axes");
            }
            expected[axes_[0]] = input.shape[axes_[0]];
            if (expected != input.shape) {
                reader.fail("an input has not the output's sizes on the other axes");
            }
            widths_.push_back(input.shape[axes_[0]] * inner);
            total += input.shape[axes_[0]];
        }
        if (total != shape[axes_[0]]) {
            reader.fail("inputs have " + std::to_string(total) + " together, the output " +
                        std::to_string(shape[axes_[0]]));
        }
        width_ = total * inner;
        rows_ = width_ == 0 ? 0 : tensors.output.elements() / width_;
    }

    std::string parameters() const override { return print_axes(axes_); }
    std::vector<int64_t> extents() const override { return {width_, rows_}; }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const Halide::Type type = storage_type(type_);
        const int lanes = lanes_of(target, type);
        const Halide::Var x("x"), row("row");
        Func out("out");
        out(x, row) = Halide::undef(type);
        int64_t begin = 0;
        for (size_t i = 0; i < inputs.size(); i++) {
            const int64_t width = widths_[i];
            const int64_t vector = lanes_within(std::max<int64_t>(1, width), lanes), whole = width / vector * vector;
            if (width > 0) {
                copy(out, row, inputs[i], {0, whole, begin, width}, vector);
            }
            if (whole < width) {  // the last vector overlaps the one before
                copy(out, row, inputs[i], {width - vector, vector, begin, width}, vector);
            }
            begin += width;
        }
        return out;
    }

  private:
    struct Part {
        int64_t first, count;  // of an input's row
        int64_t begin, width;  // where that lies in the output's row, and how wide it is
    };

    void copy(Func out, const Halide::Var &row, const Func &input, const Part &part, int64_t vector) const {
        const RDom r(static_cast<int32_t>(part.first), static_cast<int32_t>(part.count));
        out(r.x + static_cast<int32_t>(part.begin), row) = input(r.x + row * static_cast<int32_t>(part.width));
        Halide::Stage stage = out.update(out.num_update_definitions() - 1);
        stage.allow_race_conditions();
        if (vector > 1) {
            const Halide::RVar vectors("vectors"), lane("lane");
            stage.split(r.x, vectors, lane, static_cast<int>(vector)).vectorize(lane);
        }
        share_pieces(stage, {{row, rows_}}, static_cast<double>(rows_ * part.count));
    }

    ElementType type_;
    std::vector<int64_t> axes_, widths_;
    int64_t width_ = 0, rows_ = 0;
};

}  // namespace

std::unique_ptr<const Operation> read_concat(const OperationKind &, const OperationTensors &tensors,
                                             TextReader &reader) {
    return std::make_unique<const Concat>(tensors, reader);
}

}  // namespace kiln
