// An expression over the elements of tensors that are broadcast to one shape.
#include "expressions/elementwise/elementwise.h"
#include "lowering/instructions/byte_lookups.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/loops.h"

namespace kiln {
namespace {

class Map : public Operation {
  public:
    Map(const OperationTensors &tensors, TextReader &reader)
        : types_(types_of(tensors)),
          output_(tensors.output.type),
          loops_(merge_loops(loops_of(tensors, reader))),
          expression_((reader.expect("-"), reader), tensors.inputs.size()) {
        std::vector<Halide::Expr> operands;
        for (const ElementType type : types_) {
            operands.push_back(Halide::Internal::Variable::make(compute_type(type), "operand"));
        }
        try {
            check_result(expression_.build(operands).type());
        } catch (const std::invalid_argument &error) {
            reader.fail(error.what());
        }
    }

    std::string parameters() const override { return "-" + expression_.text(); }
    std::vector<int64_t> extents() const override { return extents_of(loops_); }

    Halide::Func build(const std::vector<Halide::Func> &inputs, const TargetModel &target) const override {
        return looks_up(target) ? build_by_table(inputs[0], target) : build_by_vectors(inputs, target);
    }

  private:
    Halide::Func build_by_vectors(const std::vector<Halide::Func> &inputs, const TargetModel &target) const {
        const std::vector<Halide::Var> at = vars_of(loops_);
        std::vector<Halide::Expr> operands;
        int lanes = lanes_of(target, storage_type(output_));
        for (size_t i = 0; i < inputs.size(); i++) {
            operands.push_back(element_at(inputs[i], types_[i], place_of(loops_, i, exprs(at))));
            lanes = std::min(lanes, lanes_of(target, storage_type(types_[i])));
        }
        Halide::Func out("out");
        out(at) = store_element(output_, expression_.build(operands));
        schedule_elements(out, extents(), lanes, 1 + expression_.functions());
        return out;
    }

    // Whether what becomes of each value of a byte is computed once, and elements are looked up. A byte becomes a byte
    // in few instructions for a vector of them; else each takes three, as many as its share of a vector's where a
    // function is a series.
    bool looks_up(const TargetModel &target) const {
        int64_t elements = 1;
        for (const int64_t extent : extents()) {
            elements *= extent;
        }
        const bool has_table = types_.size() == 1 && is_byte(types_[0]) && elements >= 2 * byte_values;
        return has_table &&
               (expression_.has_series() || (expression_.functions() >= least_functions && has_byte_lookups(target)));
    }

    bool has_byte_lookups(const TargetModel &target) const {
        return is_byte(output_) && looks_up_vectors(Halide::Target(target.halide));
    }

    Halide::Func build_by_table(const Halide::Func &input, const TargetModel &target) const {
        const Halide::Var value("value");
        Halide::Func table("table");
        const Halide::Expr stored = Halide::cast(storage_type(types_[0]), value);
        const Halide::Expr element = store_element(output_, expression_.build({load_element(types_[0], stored)}));
        const bool is_of_bytes = is_byte(output_);
        table(value) = is_of_bytes ? Halide::reinterpret<uint8_t>(element) : element;
        table.compute_root().bound(value, 0, byte_values);
        table.vectorize(value, std::min(byte_values, lanes_of(target, storage_type(output_))));
        const std::vector<Halide::Var> at = vars_of(loops_);
        Halide::Func out("out");
        const Halide::Expr byte = Halide::reinterpret<uint8_t>(input(place_of(loops_, 0, exprs(at))));
        out(at) = is_of_bytes ? Halide::reinterpret(storage_type(output_), look_up(table, byte))
                              : table(Halide::cast<int32_t>(byte));
        const bool is_by_vectors = has_byte_lookups(target);
        schedule_elements(out, extents(), is_by_vectors ? lanes_of(target, Halide::UInt(8)) : 1, is_by_vectors ? 1 : 3);
        return out;
    }

    // Fewer are as soon computed.
    static constexpr int least_functions = 4;

    static bool is_byte(ElementType type) { return type == ElementType::s8 || type == ElementType::u8; }

    static std::vector<ElementType> types_of(const OperationTensors &tensors) {
        std::vector<ElementType> types;
        for (const OperationTensor &input : tensors.inputs) {
            types.push_back(input.type);
        }
        return types;
    }

    static std::vector<Loop> loops_of(const OperationTensors &tensors, const TextReader &reader) {
        const std::vector<int64_t> &shape = tensors.output.shape;
        std::vector<Loop> loops(shape.size());
        for (const OperationTensor &input : tensors.inputs) {
            const std::vector<int64_t> strides = broadcast_strides(input, shape, reader);
            for (size_t d = 0; d < shape.size(); d++) {
                loops[d].extent = shape[shape.size() - 1 - d];
                loops[d].strides.push_back(strides[shape.size() - 1 - d]);
            }
        }
        if (loops.empty()) {
            loops.push_back({1, std::vector<int64_t>(tensors.inputs.size(), 0), false});
        }
        return loops;
    }

    void check_result(Halide::Type type) const {
        if (type != compute_type(output_)) {
            std::ostringstream message;
            message << "the expression is of " << type << ", the output of " << to_string(output_);
            throw std::invalid_argument(message.str());
        }
    }

    std::vector<ElementType> types_;
    ElementType output_;
    std::vector<Loop> loops_;
    ElementwiseExpression expression_;
};

}  // namespace

std::unique_ptr<const Operation> read_map(const OperationKind &, const OperationTensors &tensors, TextReader &reader) {
    return std::make_unique<const Map>(tensors, reader);
}

}  // namespace kiln
