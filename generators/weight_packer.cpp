// Packing weights by Halide's just-in-time compiler, as the functions that pack them in programs do.
#include "weight_packer.h"

#include <Halide.h>

#include <stdexcept>

#include "algorithms/algorithm.h"
#include "axes/simplify_problem.h"
#include "expressions/types.h"
#include "lowering/native_code.h"
#include "tensors.h"

namespace kiln {

struct WeightPacker::Function {
    Halide::Type w_type, type;
    std::vector<halide_dimension_t> shape;
    int64_t first = 0;  // what is packed begins so many bytes behind where the weights do
    int channels = 0;
    Halide::ImageParam weights, points;
    std::unique_ptr<const Implementation> implementation;
    std::vector<int> extents;
    int64_t bytes = 0;
    Halide::Func pack;
};

WeightPacker::WeightPacker(const Problem &problem, const Decision &decision, const int64_t *strides,
                           bool has_zero_points) try
    : function_(std::make_unique<Function>()) {
    Function &function = *function_;
    const Simplification simplification = simplification_by(decision.algorithm, problem);
    const Problem &simplified = simplification.problem, &of_weights = simplification.of_weights;
    for (size_t d = 0; d < 2; d++) {
        function.shape.emplace_back(0, static_cast<int>(problem.w_channels()[d]), static_cast<int>(strides[d]));
    }
    for (int axis = 0; axis < of_weights.rank; axis++) {
        function.shape.emplace_back(0, static_cast<int>(of_weights.kernel[axis]), static_cast<int>(strides[2 + axis]));
    }
    function.w_type = halide_type(problem.w_type);
    function.weights = Halide::ImageParam(function.w_type, static_cast<int>(function.shape.size()));
    function.weights.dim(0).set_stride(Halide::Expr());
    function.points = Halide::ImageParam(Halide::Int(32), 1);
    function.channels = static_cast<int>(problem.out_channels);
    const std::vector<int64_t> origin = weights_origin(simplification);
    for (size_t d = 0; d < origin.size(); d++) {
        function.first += origin[d] * strides[d] * function.w_type.bytes();
    }
    function.implementation = find_algorithm(decision.algorithm).read(decision.schedule);
    const Sizes sizes(simplified);
    const Halide::Expr bytes = packed_bytes(simplified, *function.implementation);
    if (!Halide::Internal::as_const_int(bytes)) {
        throw std::runtime_error("weights of open sizes are packed at run time: they cannot be embedded");
    }
    function.bytes = constant_value(bytes);
    for (const Halide::Expr &extent : function.implementation->packed_extents(simplified, sizes)) {
        function.extents.push_back(static_cast<int>(constant_value(extent)));
    }
    function.type = function.implementation->packed_type(simplified);
    const Halide::Func wide =
        widen_weights(simplified, sizes, function.type, function.weights,
                      has_zero_points ? Halide::Func(function.points) : Halide::Func(), Halide::Internal::const_true(),
                      simplification.patches, simplification.single_axes);
    function.pack = function.implementation->pack(simplified, sizes, wide);
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

WeightPacker::WeightPacker(WeightPacker &&) noexcept = default;

WeightPacker::~WeightPacker() = default;

std::vector<uint8_t> WeightPacker::pack(const void *w, const int32_t *zero_points) try {
    Function &function = *function_;
    uint8_t *first = const_cast<uint8_t *>(static_cast<const uint8_t *>(w)) + function.first;
    function.weights.set(
        Halide::Buffer<>(function.w_type, first, static_cast<int>(function.shape.size()), function.shape.data()));
    if (zero_points != nullptr) {
        function.points.set(Halide::Buffer<>(Halide::Int(32), const_cast<int32_t *>(zero_points), {function.channels}));
    }
    std::vector<uint8_t> packed(static_cast<size_t>(function.bytes));
    Halide::Buffer<> result(function.type, packed.data(), function.extents);
    function.pack.realize(result);
    return packed;
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
