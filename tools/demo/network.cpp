// Runs a network of convolutions through a compiled library, in the network's order and with its weights, and times
// each layer: weights and activations come from wherever in the caches they would be.
//
//     network FOLDER PASSES
//
// FOLDER holds network.txt (model.py tells its lines), input.bin, and weights/LAYER.w.npy and LAYER.b.npy. What the
// last layer computes goes to FOLDER/output.bin; the seconds of every layer in every pass go to stdout, as JSON.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kiln/plan.h"
#include "resnet50.h"

namespace {

// Memory for anything a kernel reads or writes.
class Memory {
  public:
    void grow(size_t bytes) {
        if (bytes <= size_) return;
        std::free(data_);
        size_ = (bytes + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
        data_ = std::aligned_alloc(KILN_ALIGNMENT, size_);
        if (data_ == nullptr) throw std::bad_alloc();
        std::fill_n(static_cast<char *>(data_), size_, 0);  // so that no page is touched first in a timed run
    }
    void *get() const { return data_; }
    float *floats() const { return static_cast<float *>(data_); }
    size_t size() const { return size_; }

    Memory() = default;
    Memory(Memory &&other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
    ~Memory() { std::free(data_); }

  private:
    void *data_ = nullptr;
    size_t size_ = 0;
};

void require(const kiln::Status &status, const std::string &what) {
    if (!status.ok()) throw std::runtime_error(what + ": " + status.message());
}

// `count` float32 behind the first `skip` bytes of a file.
std::vector<float> read_floats(const std::string &path, size_t skip, size_t count) {
    std::vector<float> values(count);
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(skip));
    const auto bytes = static_cast<std::streamsize>(count * sizeof(float));
    file.read(reinterpret_cast<char *>(values.data()), bytes);
    if (file.gcount() != bytes || file.peek() != EOF)
        throw std::runtime_error(path + " does not hold " + std::to_string(count) + " numbers");
    return values;
}

// A NumPy file of float32 in C order, version 1: its header's length stands at byte 8, in two bytes.
std::vector<float> read_npy(const std::string &path, size_t count) {
    std::ifstream file(path, std::ios::binary);
    unsigned char head[10] = {};
    file.read(reinterpret_cast<char *>(head), sizeof head);
    if (!file) throw std::runtime_error(path + " cannot be read");
    return read_floats(path, 10 + head[8] + 256 * head[9], count);
}

// A convolution bound to its kernel and weights, or (without a kernel's name in `plan`) a maximum over windows.
struct Step {
    std::string name;
    bool is_conv = false;
    int x = 0, residual = -1, y = 0;          // numbers of activations
    int kernel = 0, stride = 0, padding = 0;  // maxpool's
    kiln::Plan plan;
    Memory packed, bias;
    std::vector<double> seconds;  // of each pass
};

struct Shape {
    int64_t height, width, channels;
    size_t bytes() const { return static_cast<size_t>(height * width * channels) * sizeof(float); }
};

Step parse_step(const std::string &line) {
    Step step;
    std::istringstream words(line);
    std::string kind;
    words >> kind >> step.name >> step.x;
    step.is_conv = kind == "conv";
    if (step.is_conv)
        words >> step.residual;
    else
        words >> step.kernel >> step.stride >> step.padding;
    if (!(words >> step.y)) throw std::runtime_error("network.txt: \"" + line + "\" is not understood");
    return step;
}

// Channels last: every window's maximum, channel by channel.
void max_pool(const Step &step, const float *x, Shape in, Shape out, float *y) {
    for (int64_t row = 0; row < out.height; ++row)
        for (int64_t column = 0; column < out.width; ++column) {
            float *target = y + (row * out.width + column) * out.channels;
            std::fill_n(target, out.channels, -std::numeric_limits<float>::infinity());
            for (int tap = 0; tap < step.kernel * step.kernel; ++tap) {
                const int64_t i = row * step.stride + tap / step.kernel - step.padding;
                const int64_t j = column * step.stride + tap % step.kernel - step.padding;
                if (i < 0 || j < 0 || i >= in.height || j >= in.width) continue;
                const float *source = x + (i * in.width + j) * in.channels;
                for (int64_t c = 0; c < out.channels; ++c) target[c] = std::max(target[c], source[c]);
            }
        }
}

class Network {
  public:
    explicit Network(const std::string &folder) : folder_(folder) {
        std::ifstream program(folder + "/network.txt");
        for (std::string line; std::getline(program, line);) steps_.push_back(parse_step(line));
        if (steps_.empty() || !steps_[0].is_conv) throw std::runtime_error(folder + "/network.txt is missing or empty");
        for (Step &step : steps_) {
            activations_.resize(std::max<size_t>(activations_.size(), std::max(step.x, step.y) + 1));
            if (step.is_conv) load(&step);
        }
        const kiln::Problem &first = steps_[0].plan.problem();
        input_ = read_floats(folder + "/input.bin", 0, static_cast<size_t>(first.x_elements()));
        shapes_.resize(activations_.size());
        // Sizes follow from running once: a pool's input is whatever lies in its activation by then.
        for (Memory &activation : activations_) activation.grow(largest_);
        run();
        for (Step &step : steps_) step.seconds.clear();
    }

    void run() {
        const kiln::Problem &first = steps_[0].plan.problem();
        std::copy(input_.begin(), input_.end(), activations_[steps_[0].x].floats());
        shapes_[steps_[0].x] = {first.in[0], first.in[1], first.in_channels};
        for (Step &step : steps_) {
            const auto begin = std::chrono::steady_clock::now();
            step.is_conv ? convolve(step) : pool(step);
            step.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
    }

    void write_output() const {
        const Step &last = steps_.back();
        std::ofstream file(folder_ + "/output.bin", std::ios::binary);
        file.write(static_cast<const char *>(activations_[last.y].get()),
                   static_cast<std::streamsize>(shapes_[last.y].bytes()));
        file.close();
        if (!file) throw std::runtime_error(folder_ + "/output.bin cannot be written");
    }

    void print_seconds() const {
        const char *separator = "{";
        for (const Step &step : steps_) {
            std::printf("%s\"%s\": [", separator, step.name.c_str());
            for (size_t i = 0; i < step.seconds.size(); ++i) std::printf(i == 0 ? "%.9f" : ", %.9f", step.seconds[i]);
            std::printf("]");
            separator = ",\n ";
        }
        std::printf("}\n");
    }

  private:
    // Binds the step to its kernel and packs its weights.
    void load(Step *step) {
        require(kiln::Plan::create(*resnet50_library(), step->name, &step->plan), step->name);
        const kiln::Problem &p = step->plan.problem();
        const std::string base = folder_ + "/weights/" + step->name;
        const std::vector<float> weights = read_npy(base + ".w.npy", static_cast<size_t>(p.w_elements()));
        const std::vector<float> bias = read_npy(base + ".b.npy", static_cast<size_t>(p.out_channels));
        step->packed.grow(static_cast<size_t>(step->plan.packed_bytes()));
        step->bias.grow(bias.size() * sizeof(float));
        std::copy(bias.begin(), bias.end(), step->bias.floats());
        require(step->plan.pack(weights.data(), step->packed.get()), step->name);
        workspace_.grow(static_cast<size_t>(step->plan.workspace_bytes()));
        largest_ = std::max(largest_, sizeof(float) * static_cast<size_t>(std::max(p.x_elements(), p.y_elements())));
    }

    void convolve(const Step &step) {
        const kiln::Problem &p = step.plan.problem();
        kiln::RunArguments arguments;
        arguments.x = activations_[step.x].get();
        arguments.packed_weights = step.packed.get();
        arguments.bias = step.bias.get();
        if (step.residual >= 0) arguments.residual = activations_[step.residual].get();
        arguments.y = activations_[step.y].get();
        arguments.workspace = workspace_.get();
        arguments.workspace_bytes = static_cast<int64_t>(workspace_.size());
        require(step.plan.run(arguments), step.name);
        shapes_[step.y] = {p.out[0], p.out[1], p.out_channels};
    }

    void pool(const Step &step) {
        const Shape in = shapes_[step.x];
        const auto size = [&](int64_t n) { return (n + 2 * step.padding - step.kernel) / step.stride + 1; };
        shapes_[step.y] = {size(in.height), size(in.width), in.channels};
        max_pool(step, activations_[step.x].floats(), in, shapes_[step.y], activations_[step.y].floats());
    }

    std::string folder_;
    std::vector<Step> steps_;
    std::vector<Memory> activations_;
    std::vector<Shape> shapes_;  // of what lies in them
    std::vector<float> input_;
    Memory workspace_;
    size_t largest_ = 0;  // bytes of the largest activation
};

}  // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: network FOLDER PASSES\n");
        return 2;
    }
    try {
        Network network(argv[1]);
        for (int pass = 0; pass < std::atoi(argv[2]); ++pass) network.run();
        network.write_output();
        network.print_seconds();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "network: %s\n", error.what());
        return 1;
    }
    return 0;
}
