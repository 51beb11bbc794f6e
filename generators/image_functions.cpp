#include "image_functions.h"

#include <algorithm>
#include <map>

#include "axes/image_parts.h"
#include "expressions/sizes.h"
#include "function_parts.h"
#include "kiln/kernel.h"
#include "kiln/tensor.h"
#include "lowering/workspace.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;

// kiln_size of a number that is known, or a variable open_name(i).
kiln_size size_from(const Expr &number) {
    if (const auto known = as_const_int(number)) {
        return {*known, -1};
    }
    kiln_size size = {0, 0};
    while (number.as<Variable>()->name != open_name(static_cast<int>(size.index))) {
        size.index++;
    }
    return size;
}

// Copying beside estimates of kernels: of each row, and of each byte.
constexpr double cycles_of_row = 8, cycles_of_byte = .1;

// Multiplications a cycle where an algorithm has no estimate: parts of all sizes are alike then but for what is copied.
constexpr double products_of_cycle = 16;

// What copying a tensor of a part takes.
double cycles_of_copy(int64_t elements, int64_t bytes_of_element, int64_t row_elements) {
    return cycles_of_row * static_cast<double>(elements / row_elements) +
           cycles_of_byte * static_cast<double>(elements * bytes_of_element);
}

kiln_part_kernel numbers_of(const PartKernel &kernel) {
    const Problem &p = kernel.problem;
    kiln_part_kernel numbers = {};
    for (int axis = 0; axis < p.rank; axis++) {
        numbers.in[axis] = p.in[axis];
        numbers.out[axis] = p.out[axis];
    }
    numbers.x_strided = kernel.is_x_strided ? 1 : 0;
    numbers.y_strided = kernel.is_y_strided ? 1 : 0;
    const double cycles = kernel.cycles.value_or(p.flops() / 2 / products_of_cycle);
    numbers.cycles = static_cast<int64_t>(cycles + cycles_of_copies(p, kernel.is_y_strided)) + 1;
    return numbers;
}

kiln_image_parts table_of(const Problem &problem, const std::vector<PartKernel> &kernels) {
    const Sizes sizes(problem);
    kiln_image_parts t = {};
    t.rank = problem.rank;
    t.transposed = problem.traits().transposed ? 1 : 0;
    t.x_channels = problem.in_channels;
    t.y_channels = problem.out_channels;
    t.x_element_bytes = size_of(problem.x_type);
    t.y_element_bytes = size_of(problem.y_type);
    t.x_channels_last = problem.x_layout == Layout::nxc ? 1 : 0;
    t.y_channels_last = problem.y_layout == Layout::nxc ? 1 : 0;
    t.fill = problem.x_zero_point & 0xff;
    t.pointwise = is_pointwise(problem) ? 1 : 0;
    t.has_residual = problem.residual ? 1 : 0;
    t.batch = size_from(sizes.batch);
    for (int axis = 0; axis < problem.rank; axis++) {
        const size_t inward = static_cast<size_t>(problem.rank - 1 - axis);
        t.axes[axis] = {size_from(sizes.in[inward]), size_from(sizes.out[inward]), size_from(sizes.pad_begin[inward]),
                        problem.stride[axis], problem.effective_kernel(axis) - 1};
    }
    int64_t workspace_bytes = 0;
    for (const PartKernel &kernel : kernels) {
        const int64_t x_bytes = Workspace::round_up(kernel.problem.x_elements() * t.x_element_bytes);
        const int64_t y_bytes = Workspace::round_up(kernel.problem.y_elements() * t.y_element_bytes);
        t.x_bytes = std::max(t.x_bytes, x_bytes);
        t.y_bytes = std::max(t.y_bytes, y_bytes);
        t.kernels[t.kernel_count++] = numbers_of(kernel);
        workspace_bytes = std::max(workspace_bytes, kernel.workspace_bytes);
    }
    t.scratch_bytes = t.x_bytes + t.y_bytes * (1 + t.has_residual) + Workspace::round_up(workspace_bytes);
    return t;
}

// Keeps a kernel to its object, in which its name is a function's pointer.
Expr keep(Halide::Module &module, const std::string &symbol) {
    for (LoweredFunc &function : module.functions()) {
        if (function.name == symbol) {
            function.linkage = Halide::LinkageType::Internal;
        }
    }
    return Variable::make(Halide::Handle(), "::" + symbol);
}

}  // namespace

double cycles_of_copies(const Problem &part, bool is_strided) {
    const int last = part.rank - 1;
    const double x = cycles_of_copy(part.x_elements(), size_of(part.x_type),
                                    part.in[last] * (part.x_layout == Layout::nxc ? part.in_channels : 1));
    const double y = cycles_of_copy(part.y_elements(), size_of(part.y_type),
                                    part.out[last] * (part.y_layout == Layout::nxc ? part.out_channels : 1));
    return x + (is_strided ? 0 : part.residual ? 2 : 1) * y;
}

void append_loop_over_images(Halide::Module &module, const std::string &symbol, const std::string &of_image,
                             const Problem &image) {
    keep(module, of_image);
    const std::string counter = "image";
    const Expr number = Halide::cast<int64_t>(Variable::make(Int(32), counter));
    std::map<std::string, Expr> moving;
    for (const TensorTraits &row : tensor_traits) {
        if (!row.packs && row.shape != TensorShape::list && row.has(image)) {
            const int64_t bytes = elements_of(image, row.tensor) * size_of(row.type(image));
            moving[row.name] = moved(pointer(row.name), number * make_const(Int(64), bytes));
        }
    }
    std::vector<Expr> arguments;
    const std::vector<std::string> names = names_of(run_arguments());
    for (const std::string &name : names) {
        const auto place = moving.find(name);
        arguments.push_back(place == moving.end() ? pointer(name) : place->second);
    }
    const Expr images =
        Load::make(Int(32), "sizes", 0, Halide::Buffer<>(), Halide::Parameter(), const_true(), ModulusRemainder());
    append(module, symbol, names,
           For::make(counter, 0, images, ForType::Serial, Halide::Partition::Never, Halide::DeviceAPI::None,
                     pass_on(call(of_image, arguments))));
}

int64_t append_run_of_parts(Halide::Module &module, const std::string &symbol, const Problem &problem,
                            const std::vector<PartKernel> &kernels) {
    const kiln_image_parts table = table_of(problem, kernels);
    const auto *first = reinterpret_cast<const int64_t *>(&table);
    const std::vector<int64_t> numbers(first, first + sizeof table / sizeof(int64_t));
    std::vector<Expr> arguments = {constant(module, symbol + "_parts", numbers)};
    for (size_t k = 0; k < kiln_part_kernels; k++) {
        arguments.push_back(k < kernels.size() ? keep(module, kernels[k].symbol) : null_pointer());
    }
    for (const char *name : {"x", "packed", "bias", "residual", "scale", "y", "sizes", "workspace", "threads"}) {
        arguments.push_back(pointer(name));
    }
    append(module, symbol, names_of(run_arguments()), pass_on(call("kiln_run_parts", arguments)));
    return table.scratch_bytes;
}

}  // namespace kiln
