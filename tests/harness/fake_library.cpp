#include "fake_library.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace kiln::test {
namespace {

constexpr int channels = 2, points = 5, out_channels = 3, taps = 3;
constexpr int64_t workspace_floats = 20;  // no multiple of the alignment: an access just past it stays on its page

Defect defect_of_kernel;

int32_t pack(const void *w, const int64_t *strides, const int32_t *, const int32_t *, void *packed) {
    auto *to = static_cast<float *>(packed);
    for (int m = 0; m < out_channels; ++m)
        for (int c = 0; c < channels; ++c)
            for (int t = 0; t < taps; ++t)
                *to++ = static_cast<const float *>(w)[m * strides[0] + c * strides[1] + t * strides[2]];
    return kiln_ok;
}

// How many points x and y have, and how many zeros stand before x.
struct Sizes {
    int in = points, out = points, pad = 1;
};

// Calls itself until the stack is at its end. What it adds keeps the compiler from making a loop of it.
int overflow(volatile char *caller) {
    volatile char frame[4096];
    frame[0] = caller[0];
    return frame[0] != 0 ? 0 : overflow(frame) + frame[0];
}

float element(const float *x, const float *w, float bias, int m, int o, bool leave_one_out, const Sizes &sizes) {
    float sum = bias;
    for (int c = 0; c < channels; ++c)
        for (int t = leave_one_out ? 1 : 0; t < taps; ++t)
            if (const int i = o + t - sizes.pad; i >= 0 && i < sizes.in)
                sum += x[c * sizes.in + i] * w[(m * channels + c) * taps + t];
    return sum;
}

// `target` is written through a volatile pointer, so that the compiler keeps an access that means nothing.
void touch(const float *target) {
    volatile auto *at = const_cast<float *>(target);
    *at = 1;
}

// Whether another run comes, or came, within 50 ms of this one.
bool meets_another_run() {
    static std::atomic<int> inside;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    ++inside;
    bool met = false;
    while (!met && std::chrono::steady_clock::now() < end) met = inside > 1;
    std::this_thread::sleep_until(met ? end : std::chrono::steady_clock::now());
    --inside;
    return met;
}

int32_t compute(Defect defect, const void *x_data, const void *packed, const void *bias, void *y_data,
                const int32_t *open, void *workspace, const kiln_threads *threads) {
    const auto *x = static_cast<const float *>(x_data), *w = static_cast<const float *>(packed);
    auto *y = static_cast<float *>(y_data);
    if (defect == Defect::error_code) return kiln_failed;
    if (defect == Defect::illegal_instruction) raise(SIGILL);
    if (defect == Defect::killed) raise(SIGKILL);
    if (volatile char begin = 0; defect == Defect::stack_overflow) return overflow(&begin);
    const Sizes sizes = open != nullptr ? Sizes{open[0], open[1], open[2]} : Sizes();
    for (int m = 0; m < out_channels; ++m)
        for (int o = 0; o < sizes.out; ++o) {
            const bool last = m == out_channels - 1 && o == sizes.out - 1;
            const bool wrong =
                defect == Defect::wrong_value || (defect == Defect::wrong_when_threaded && threads != nullptr);
            if (last && defect == Defect::unwritten) continue;
            y[m * sizes.out + o] = element(x, w, static_cast<const float *>(bias)[m], m, o, last && wrong, sizes);
        }
    if (defect == Defect::wrong_unaligned && reinterpret_cast<uintptr_t>(x) % 8 != 0) y[0] += 1;
    if (defect == Defect::shared_state && meets_another_run()) y[0] += 1;
    volatile float read = 0;
    if (defect == Defect::nan) y[3] = 0.0f / read;
    if (defect == Defect::write_past_y) touch(y + out_channels * points);
    if (defect == Defect::write_before_y) touch(y - 1);
    if (defect == Defect::read_past_x) read = x[channels * points];
    if (defect == Defect::read_before_x) read = x[-1];
    if (defect == Defect::write_past_workspace) touch(static_cast<float *>(workspace) + workspace_floats);
    if (defect == Defect::read_workspace) y[0] += *static_cast<float *>(workspace);
    if (defect == Defect::write_x) touch(x);
    if (defect == Defect::write_packed) touch(w);
    return kiln_ok;
}

int32_t run(const void *x, const void *packed, const void *bias, const void *, const void *, const void *,
            const float *, void *y, const int32_t *open, void *workspace, const kiln_threads *threads) {
    return compute(defect_of_kernel, x, packed, bias, y, open, workspace, threads);
}

int32_t run_right(const void *x, const void *packed, const void *bias, const void *, const void *, const void *,
                  const float *, void *y, const int32_t *open, void *workspace, const kiln_threads *threads) {
    return compute(Defect::none, x, packed, bias, y, open, workspace, threads);
}

// The order (output channel, input channel, tap), as ONNX has it.
constexpr int64_t weight_strides[] = {channels * taps, taps, 1};
ProblemText problem_text;
kiln_kernel kernel;
kiln_layer layer;
kiln_library library;

constexpr kiln_kernel_bytes memory = {out_channels * channels * taps * sizeof(float), workspace_floats * sizeof(float),
                                      0};

int32_t bytes_for(const int32_t *, kiln_kernel_bytes *bytes) {
    *bytes = memory;
    return kiln_ok;
}

kiln_library &make_library(const Problem &problem, const char *layer_name, Defect defect) {
    defect_of_kernel = defect;
    problem_text = print(problem);
    kernel = {};
    kernel.problem = problem_text.c_str();
    kernel.algorithm = "direct";
    kernel.schedule = "by hand";
    kernel.target = "fake";
    kernel.run = run;
    kernel.pack = pack;
    layer = {};
    layer.name = layer_name;
    layer.problem = problem_text.c_str();
    layer.weight_strides = weight_strides;
    library = {"fake", "1.0", 1, 1, &kernel, &layer};
    return library;
}

}  // namespace

Problem fake_problem() {
    Problem problem;
    problem.rank = 1;
    problem.in_channels = channels;
    problem.out_channels = out_channels;
    problem.in[0] = problem.out[0] = points;
    problem.kernel[0] = taps;
    problem.stride[0] = problem.dilation[0] = problem.pad_begin[0] = 1;
    problem.bias = true;
    return canonicalize(problem);
}

kiln_kernel &fake_kernel() {
    return kernel;
}
kiln_layer &fake_layer() {
    return layer;
}

kiln_library &fake_library(Defect defect) {
    kiln_library &made = make_library(fake_problem(), "only", defect);
    kernel.bytes = memory;
    return made;
}

kiln_library &fake_library_of_three(Defect defect) {
    static kiln_kernel kernels[3];
    static kiln_layer layers[3];
    static ProblemText texts[3];
    static constexpr const char *names[] = {"before", "bad", "behind"};
    fake_library(defect);
    for (int i = 0; i < 3; ++i) {
        // Problems that differ, though the same kernel computes them.
        Problem problem = fake_problem();
        problem.activation = Activation::clip;
        problem.activation_params = {-1000.0f - i, 1000};
        texts[i] = print(canonicalize(problem));
        kernels[i] = kernel;
        layers[i] = layer;
        if (i != 1) kernels[i].run = run_right;
        kernels[i].problem = layers[i].problem = texts[i].c_str();
        layers[i].name = names[i];
    }
    library = {"fake", "1.0", 3, 3, kernels, layers};
    return library;
}

kiln_library &fake_open_library(Defect defect) {
    Problem problem = fake_problem();
    problem.in[0] = problem.out[0] = problem.pad_begin[0] = open_size;
    kiln_library &made = make_library(canonicalize(problem), "open", defect);
    kernel.bytes_for = bytes_for;
    return made;
}

}  // namespace kiln::test
