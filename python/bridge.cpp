#include "bridge.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "fmt/format.h"
#include "harness/machine/threads.h"
#include "kiln/plan.h"
#include "layers/shape_option.h"
#include "layers/spec.h"
#include "nlohmann/json.hpp"
#include "system/share_folder.h"

using kiln::DType;
using kiln::Layout;
using kiln::Problem;
using kiln::Resolution;
using kiln::Shape;
using kiln::StatusCode;
using kiln::tools::Error;
using kiln::tools::LayerSpec;
using nlohmann::json;

struct kiln_python_spec {
    kiln::tools::Spec spec;
    std::string text;
};

struct kiln_python_plan {
    kiln::Plan plan;
    std::vector<float> scale;
    std::vector<int32_t> zero_points;
    std::string text;
};

struct kiln_python_team {
    explicit kiln_python_team(int workers) : team(workers) {}
    kiln::harness::ThreadTeam team;
};

namespace {

thread_local std::string message;

// Turns what `body` throws into a code and a message: no exception may leave a C function.
template <typename Body>
int32_t guarded(const Body &body) try {
    body();
    return kiln_ok;
} catch (const Error &error) {
    message = error.what();
    return static_cast<int32_t>(error.code);
} catch (const std::exception &error) {
    message = error.what();
    return kiln_failed;
}

void check(const kiln::Status &status) {
    if (!status.ok()) throw Error(status.message(), status.code());
}

json to_json(const Shape &shape) {
    json sizes = json::array();
    for (int i = 0; i < shape.rank; ++i) {
        sizes.push_back(shape.sizes[i] == kiln::open_size ? json() : json(shape.sizes[i]));
    }
    return sizes;
}

json file_or_null(const std::string &path) {
    return path.empty() ? json() : json(path);
}

std::string spec_text(const kiln::tools::Spec &spec) {
    json layers = json::array();
    for (const LayerSpec &layer : spec.layers) {
        layers.push_back({{"name", layer.name},
                          {"operator", layer.op},
                          {"x", to_json(layer.x)},
                          {"w", to_json(layer.w)},
                          {"weights", file_or_null(layer.weights_file)},
                          {"bias_values", file_or_null(layer.bias_file)}});
    }
    return json{{"name", spec.name}, {"layers", layers}}.dump();
}

const LayerSpec &find_layer(const kiln::tools::Spec &spec, const std::string &name) {
    const auto found = std::find_if(spec.layers.begin(), spec.layers.end(),
                                    [&](const LayerSpec &layer) { return layer.name == name; });
    if (found == spec.layers.end()) throw Error(fmt::format("there is no layer {}", name));
    return *found;
}

// Puts a tensor's sizes where the layer leaves them open; they must be the layer's elsewhere.
void fill(const char *tensor, const int64_t *sizes, int rank, Shape *shape) {
    Shape given;
    given.rank = std::min(rank, kiln::max_rank);
    std::copy_n(sizes, given.rank, given.sizes);
    bool fits = rank == shape->rank;
    for (int i = 0; fits && i < rank; ++i) {
        fits = shape->sizes[i] == sizes[i] || shape->sizes[i] == kiln::open_size;
    }
    if (!fits) {
        throw Error(fmt::format("{} is of shape {}: it must be {}", tensor, kiln::tools::shown(given),
                                kiln::tools::shown(*shape)));
    }
    *shape = given;
}

Shape channels_first(int64_t batch, int64_t channels, const kiln::Axes &axes, int rank) {
    Shape shape;
    shape.rank = rank + 2;
    shape.sizes[0] = batch;
    shape.sizes[1] = channels;
    std::copy_n(axes.begin(), rank, shape.sizes + 2);
    return shape;
}

Shape filter_shape(const Problem &p) {
    return channels_first(p.w_channels()[0], p.w_channels()[1], p.kernel, p.rank);
}

// The shapes of a problem that a layer gives as a text, where a dialect's layer has its own.
void shapes_of_text(LayerSpec *layer) {
    if (layer->problem.empty()) return;
    const Problem p = resolve(*layer).problem;
    if (p.has_open_sizes()) {
        throw Error(fmt::format("the layer {} is a problem with open sizes: write it with a dialect's attributes, "
                                "whose rules tell the others from x and w",
                                layer->name),
                    StatusCode::unsupported);
    }
    layer->x = channels_first(p.batch, p.in_channels, p.in, p.rank);
    layer->w = filter_shape(p);
}

// A tensor as the caller sees it, in the dialect's order, and how it lies in memory.
json tensor(const Shape &shape, DType type, Layout order, Layout memory) {
    return {{"shape", to_json(shape)},
            {"dtype", kiln::to_string(type)},
            {"channels_last", order == memory ? json() : json(memory == Layout::nxc)}};
}

// In the dialect's order.
Shape shape_of(const kiln::TensorTraits &row, const LayerSpec &layer, const Resolution &resolution) {
    const int64_t channels = kiln::channels_of(resolution.problem, row.tensor);
    switch (row.shape) {
        case kiln::TensorShape::input:
            return layer.x;
        case kiln::TensorShape::filter:
            return layer.w;
        case kiln::TensorShape::output:
            return resolution.y;
        case kiln::TensorShape::samples: {
            Shape shape = resolution.y;
            shape.sizes[1] = channels;
            return shape;
        }
        case kiln::TensorShape::list:
            break;
    }
    return Shape{1, {channels}};
}

// The order in memory; `order` is the dialect's.
Layout memory_of(const kiln::TensorTraits &row, const Problem &p, Layout order) {
    switch (row.shape) {
        case kiln::TensorShape::input:
        case kiln::TensorShape::samples:
            return p.x_layout;
        case kiln::TensorShape::output:
            return p.y_layout;
        case kiln::TensorShape::filter:
        case kiln::TensorShape::list:
            break;
    }
    return order;
}

json tensors(const LayerSpec &layer, const Resolution &resolution) {
    const Problem &p = resolution.problem;
    const Layout order = layer.problem.empty() ? kiln::tools::own_layout(layer) : Layout::ncx;
    json all;
    for (const kiln::TensorTraits &row : kiln::tensor_traits) {
        const bool is_given = row.tensor != kiln::Tensor::scale && row.tensor != kiln::Tensor::zero_points;
        if (!is_given || !kiln::has(p, row.tensor)) continue;
        all[row.name] = tensor(shape_of(row, layer, resolution), row.type(p), order, memory_of(row, p, order));
        all[row.name]["index"] = static_cast<int>(row.tensor);
    }
    return all;
}

int32_t never_called(void *, kiln_task, void *, int32_t) {
    return kiln_failed;
}

std::unique_ptr<kiln_python_plan> make_plan(LayerSpec layer, const kiln_library &library, int workers) {
    layer.w_layout = "";  // w comes in the dialect's own order
    const Resolution resolution = resolve(layer);
    auto plan = std::make_unique<kiln_python_plan>();
    if (layer.problem.empty()) {
        check(kiln::Plan::create(library, layer.view().layer, &plan->plan));
    } else {
        check(kiln::Plan::create(library, resolution.problem, &plan->plan));
    }
    const kiln_kernel &kernel = plan->plan.kernel();
    if (kernel.gpu != kiln_gpu_none) {
        throw Error(fmt::format("the layer {} is compiled for {}: Python runs kernels of processors alone", layer.name,
                                kernel.target),
                    StatusCode::unsupported);
    }
    plan->scale = layer.output_scale(resolution.problem);
    plan->zero_points = layer.weight_zero_points(resolution.problem);
    const kiln_threads threads = {nullptr, workers, never_called};
    plan->text = json{{"problem", std::string(print(resolution.problem))},
                      {"algorithm", kernel.algorithm},
                      {"schedule", kernel.schedule},
                      {"target", kernel.target},
                      {"packed_bytes", plan->plan.packed_bytes()},
                      {"workspace_bytes", plan->plan.workspace_bytes(&threads)},
                      {"tensors", tensors(layer, resolution)},
                      {"tensor_count", kiln::tensor_count}}
                     .dump();
    return plan;
}

}  // namespace

const char *kiln_python_message(void) {
    return message.c_str();
}

int32_t kiln_python_read(const char *path, const char *share, const char *shapes, const char *weights,
                         kiln_python_spec **spec) {
    return guarded([&] {
        kiln::tools::set_share_folder(share);
        kiln::tools::SpecOptions options;
        std::istringstream lines(shapes);
        for (std::string line; std::getline(lines, line);) {
            options.shapes.push_back(kiln::tools::parse_shape_option(line));
        }
        options.weights_folder = weights;
        auto read = std::make_unique<kiln_python_spec>();
        read->spec = kiln::tools::load_spec(path, options);
        read->text = spec_text(read->spec);
        *spec = read.release();
    });
}

const char *kiln_python_spec_text(const kiln_python_spec *spec) {
    return spec->text.c_str();
}

void kiln_python_free_spec(kiln_python_spec *spec) {
    delete spec;
}

int32_t kiln_python_plan_layer(const kiln_python_spec *spec, const char *layer, const kiln_library *library,
                               const int64_t *x, int32_t x_rank, const int64_t *w, int32_t w_rank, int32_t workers,
                               kiln_python_plan **plan) {
    return guarded([&] {
        LayerSpec filled = find_layer(spec->spec, layer);
        shapes_of_text(&filled);
        fill("x", x, x_rank, &filled.x);
        fill("w", w, w_rank, &filled.w);
        *plan = make_plan(std::move(filled), *library, workers).release();
    });
}

const char *kiln_python_plan_text(const kiln_python_plan *plan) {
    return plan->text.c_str();
}

int32_t kiln_python_pack(const kiln_python_plan *plan, const void *w, void *packed) {
    return guarded(
        [&] { check(plan->plan.pack(w, packed, plan->zero_points.empty() ? nullptr : plan->zero_points.data())); });
}

int32_t kiln_python_run(const kiln_python_plan *plan, const kiln_python_run_arguments *arguments,
                        kiln_python_team *team) {
    return guarded([&] {
        kiln::RunArguments run;
        kiln::for_each_tensor(run, [&](kiln::Tensor tensor, auto &pointer) {
            void *const given = arguments->tensors[static_cast<size_t>(tensor)];
            pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(given);
        });
        run.packed_weights = arguments->packed;
        run.scale = plan->scale.empty() ? nullptr : plan->scale.data();
        run.workspace = arguments->workspace;
        run.workspace_bytes = arguments->workspace_bytes;
        run.threads = team == nullptr ? nullptr : team->team.hook();
        check(plan->plan.run(run));
    });
}

void kiln_python_free_plan(kiln_python_plan *plan) {
    delete plan;
}

int32_t kiln_python_make_team(int32_t workers, kiln_python_team **team) {
    return guarded([&] { *team = new kiln_python_team(workers); });
}

void kiln_python_free_team(kiln_python_team *team) {
    delete team;
}
