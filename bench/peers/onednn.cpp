// oneDNN's side of the benchmark, called from onednn.py: one primitive, its memory, and runs of it.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "dnnl.hpp"

namespace {

using dnnl::algorithm;
using dnnl::memory;
using Type = memory::data_type;
using Tag = memory::format_tag;

enum Layout { own, nxc, ncx, ncx_around };  // ncx_around: NCX, changed to its own layout and back in every run

// onednn.py has the same. Arrays hold `rank` numbers.
struct Case {
    int32_t rank, transposed, layout, relu, bias_apart;
    char type;  // f float32, b bfloat16, h float16, u or s 8-bit; y is that too
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
    const void *x, *w;   // NCX, and output before input channels; float32, or 8-bit
    const float *bias;   // null: none
    const float *scale;  // of each output channel, for 8-bit data
    char message[256];   // what went wrong, else the implementation's name
};

struct Layer {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    dnnl::primitive primitive, addition;
    std::unordered_map<int, memory> arguments, addition_arguments;
    memory y;
    memory::desc plain_y;
    memory given_x, given_y;  // of ncx_around
    dnnl::reorder enter, leave;

    void run() {
        if (given_x) enter.execute(stream, given_x, arguments[DNNL_ARG_SRC]);
        primitive.execute(stream, arguments);
        if (!addition_arguments.empty()) addition.execute(stream, addition_arguments);
        if (given_y) leave.execute(stream, y, given_y);
        stream.wait();
    }
    // In memory laid out as `to`, what lies in `data` as `from`.
    memory reordered(const memory::desc &from, const memory::desc &to, const void *data) {
        memory source(from, engine, const_cast<void *>(data)), target(to, engine);
        dnnl::reorder(source, target).execute(stream, source, target);
        stream.wait();
        return target;
    }
    memory vector(const float *values, int64_t count) {
        const memory::desc desc({count}, Type::f32, Tag::x);
        return reordered(desc, desc, values);
    }
};

Tag tag(int rank, int layout) {
    if (layout == own || layout == ncx_around) return Tag::any;
    const Tag tags[3][2] = {{Tag::ncw, Tag::nwc}, {Tag::nchw, Tag::nhwc}, {Tag::ncdhw, Tag::ndhwc}};
    return tags[rank - 1][layout == nxc];
}

Tag weight_tag(int rank, bool groups) {
    const Tag tags[3][2] = {{Tag::oiw, Tag::goiw}, {Tag::oihw, Tag::goihw}, {Tag::oidhw, Tag::goidhw}};
    return tags[rank - 1][groups];
}

memory::dims dims(std::initializer_list<int64_t> first, const int64_t *rest, int rank) {
    memory::dims all(first);
    all.insert(all.end(), rest, rest + rank);
    return all;
}

void prepare(Case &c, Layer &layer) {
    const bool quantised = c.type == 'u' || c.type == 's';
    const Type data = c.type == 'f'   ? Type::f32
                      : c.type == 'b' ? Type::bf16
                      : c.type == 'h' ? Type::f16
                      : c.type == 'u' ? Type::u8
                                      : Type::s8;
    const Type weights = quantised ? Type::s8 : data, given = quantised ? data : Type::f32;
    const memory::dims x_dims = dims({c.batch, c.in_channels}, c.in, c.rank);
    const memory::dims y_dims = dims({c.batch, c.out_channels}, c.out, c.rank);
    const int64_t out = c.out_channels / c.groups, in = c.in_channels / c.groups;
    const memory::dims w_dims =
        c.groups > 1 ? dims({c.groups, out, in}, c.kernel, c.rank) : dims({out, in}, c.kernel, c.rank);
    const memory::dims strides = dims({}, c.stride, c.rank), begin = dims({}, c.pad_begin, c.rank);
    const memory::dims end = dims({}, c.pad_end, c.rank);
    memory::dims dilations = dims({}, c.dilation, c.rank);
    for (int64_t &dilation : dilations) --dilation;  // oneDNN counts from 0

    const memory::desc x(x_dims, data, tag(c.rank, c.layout)), y(y_dims, data, tag(c.rank, c.layout));
    const memory::desc w(w_dims, weights, Tag::any);
    const bool bias_inside = c.bias != nullptr && c.bias_apart == 0;
    const memory::desc bias = bias_inside ? memory::desc({c.out_channels}, Type::f32, Tag::x) : memory::desc();
    dnnl::primitive_attr attributes, addition_attributes;
    dnnl::post_ops relu;
    relu.append_eltwise(algorithm::eltwise_relu, 0, 0);
    if (c.relu != 0) (c.bias_apart != 0 ? addition_attributes : attributes).set_post_ops(relu);
    if (quantised) attributes.set_scales_mask(DNNL_ARG_WEIGHTS, c.groups > 1 ? 3 : 1);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

    const auto build = [&](const auto &descriptor, auto &&primitive) {
        const auto place = [&](const memory::desc &desc) { return memory(desc, layer.engine); };
        layer.primitive = primitive;
        layer.y = place(descriptor.dst_desc());
        layer.arguments = {
            {DNNL_ARG_SRC, layer.reordered({x_dims, given, tag(c.rank, ncx)}, descriptor.src_desc(), c.x)},
            {DNNL_ARG_WEIGHTS,
             layer.reordered({w_dims, quantised ? Type::s8 : Type::f32, weight_tag(c.rank, c.groups > 1)},
                             descriptor.weights_desc(), c.w)},
            {DNNL_ARG_DST, layer.y},
            {DNNL_ARG_SCRATCHPAD, place(descriptor.scratchpad_desc())}};
        std::snprintf(c.message, sizeof c.message, "%s", descriptor.impl_info_str());
    };
    if (c.transposed != 0) {
        const dnnl::deconvolution_forward::primitive_desc descriptor(layer.engine, dnnl::prop_kind::forward_inference,
                                                                     algorithm::deconvolution_direct, x, w, bias, y,
                                                                     strides, dilations, begin, end, attributes);
        build(descriptor, dnnl::deconvolution_forward(descriptor));
    } else {
        const dnnl::convolution_forward::primitive_desc descriptor(layer.engine, dnnl::prop_kind::forward_inference,
                                                                   algorithm::convolution_auto, x, w, bias, y, strides,
                                                                   dilations, begin, end, attributes);
        build(descriptor, dnnl::convolution_forward(descriptor));
    }
    if (bias_inside) layer.arguments[DNNL_ARG_BIAS] = layer.vector(c.bias, c.out_channels);
    if (quantised) layer.arguments[DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS] = layer.vector(c.scale, c.out_channels);
    if (c.bias_apart != 0) {
        memory::dims one(y_dims.size(), 1);
        one[1] = c.out_channels;
        const memory::desc column(one, Type::f32, tag(c.rank, ncx));
        const memory::desc &sums = layer.y.get_desc();
        layer.addition = dnnl::binary(
            dnnl::binary::primitive_desc(layer.engine, algorithm::binary_add, sums, column, sums, addition_attributes));
        layer.addition_arguments = {{DNNL_ARG_SRC_0, layer.y},
                                    {DNNL_ARG_SRC_1, layer.reordered(column, column, c.bias)},
                                    {DNNL_ARG_DST, layer.y}};
    }
    if (c.layout == ncx_around) {
        const memory::desc around(y_dims, data, tag(c.rank, ncx));
        const memory &inside = layer.arguments[DNNL_ARG_SRC];
        layer.given_x = layer.reordered({x_dims, given, tag(c.rank, ncx)}, {x_dims, data, tag(c.rank, ncx)}, c.x);
        layer.given_y = memory(around, layer.engine);
        layer.enter = dnnl::reorder(layer.given_x, inside);
        layer.leave = dnnl::reorder(layer.y, layer.given_y);
    }
    layer.plain_y = memory::desc(y_dims, quantised ? data : Type::f32, tag(c.rank, ncx));
}

}  // namespace

extern "C" {

Layer *bench_onednn_prepare(Case *c) {
    auto *layer = new Layer;
    try {
        prepare(*c, *layer);
        return layer;
    } catch (const std::exception &error) {
        std::snprintf(c->message, sizeof c->message, "%s", error.what());
        delete layer;
        return nullptr;
    }
}

// The seconds that `calls` runs take.
double bench_onednn_run(Layer *layer, long calls) {
    const auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < calls; ++i) layer->run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The result, in NCX, as float32 or 8-bit.
void bench_onednn_output(Layer *layer, void *y) {
    memory target(layer->plain_y, layer->engine, y);
    memory &result = layer->given_y ? layer->given_y : layer->y;
    dnnl::reorder(result, target).execute(layer->stream, result, target);
    layer->stream.wait();
}

void bench_onednn_version(int32_t *version) {
    const auto *v = dnnl::version();
    version[0] = v->major;
    version[1] = v->minor;
    version[2] = v->patch;
}
}
