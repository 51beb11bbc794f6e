#include "network_program/program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/machine/machine.h"
#include "harness/machine/threads.h"
#include "harness/machine/timing.h"
#include "harness/tensors/buffer.h"
#include "network_program/comparison.h"

namespace kiln::network_program {
namespace {

std::vector<double> *step_times = nullptr;  // when each step began, each time that it ran, and when the last was done
int32_t step_repeats = 1;
constexpr int32_t warm_repeats = 4;

struct Memory {
    explicit Memory(int64_t bytes) : data(kiln::harness::allocate(static_cast<size_t>(bytes))), bytes(bytes) {
        std::fill_n(static_cast<char *>(data.get()), bytes, 0);  // no page is touched first in a timed run
    }
    kiln::harness::Buffer data;
    std::streamsize bytes;
};

// Everything that a call takes.
class Call {
  public:
    Call(const kiln_network &network, const std::string &folder, int workers)
        : network_(network), folder_(folder), team_(workers) {
        for (int i = 0; i < network.input_count; i++) {
            add(network.inputs[i].bytes);
            read(path("input", i), &tensors_.back());
        }
        for (int i = 0; i < network.output_count; i++) add(network.outputs[i].bytes);
        const int64_t more = network.worker_arena_bytes + network.per_worker_bytes * (workers - 1);
        add(network.arena_bytes + (workers > 1 ? more : 0));
        fields_.push_back(const_cast<kiln_threads *>(workers > 1 ? team_.hook() : nullptr));
        if (network.packed_bytes > 0) {
            add(network.packed_bytes);
            check(network.pack(fields_.back()));
        }
    }

    void run(const kiln_network &network) { check(network.run(fields_.data())); }
    void run() { run(network_); }

    void write() const {
        for (int i = 0; i < network_.output_count; i++) write(path("output", i), tensors_[network_.input_count + i]);
        write(folder_ + "/arena.bin", tensors_[network_.input_count + network_.output_count]);
    }

    const char *output(int index) const {
        return static_cast<const char *>(tensors_[network_.input_count + index].data.get());
    }
    std::vector<char> expected(int index) const {
        Memory memory(network_.outputs[index].bytes);
        read(path("expected", index), &memory);
        const char *data = static_cast<const char *>(memory.data.get());
        return {data, data + memory.bytes};
    }

  private:
    std::string path(const char *what, int index) const {
        return folder_ + "/" + what + std::to_string(index) + ".bin";
    }
    void add(int64_t bytes) {
        tensors_.emplace_back(bytes);
        fields_.push_back(tensors_.back().data.get());
    }
    static void check(int32_t code) {
        if (code != kiln_ok) throw std::runtime_error(std::string(kiln_status_text(code)) + ": " + kiln_last_message());
    }
    static void read(const std::string &path, Memory *memory) {
        std::ifstream file(path, std::ios::binary);
        file.read(static_cast<char *>(memory->data.get()), memory->bytes);
        if (!file) throw std::runtime_error(path + " cannot be read");
    }
    static void write(const std::string &path, const Memory &memory) {
        std::ofstream file(path, std::ios::binary);
        file.write(static_cast<const char *>(memory.data.get()), memory.bytes);
        if (!file.flush()) throw std::runtime_error(path + " cannot be written");
    }

    const kiln_network &network_;
    const std::string folder_;
    kiln::harness::ThreadTeam team_;
    std::vector<Memory> tensors_;
    std::vector<void *> fields_;
};

void print(const char *name, const std::vector<double> &values, const char *end) {
    std::printf("%s[", name);
    for (size_t i = 0; i < values.size(); i++) std::printf(i == 0 ? "%.9f" : ", %.9f", values[i]);
    std::printf("]%s", end);
}

// Appends what each step takes in a call that runs each so many times, the last of them, to `steps`.
void add_step_times(Call &call, const kiln_network &traced, int32_t repeats, std::vector<std::vector<double>> *steps) {
    std::vector<double> times;
    step_times = &times, step_repeats = repeats;
    call.run(traced);
    step_times = nullptr, step_repeats = 1;
    const size_t each = static_cast<size_t>(repeats);
    steps->resize(times.size() / each);
    for (size_t i = 0; i < steps->size(); i++) {
        (*steps)[i].push_back(times[(i + 1) * each] - times[(i + 1) * each - 1]);
    }
}

void print(const char *name, const std::vector<std::vector<double>> &steps, const char *end) {
    std::printf("%s[", name);
    for (size_t i = 0; i < steps.size(); i++) print(i == 0 ? "" : ",\n  ", steps[i], "");
    std::printf("]%s", end);
}

// The seconds of whole calls, at most so many, until so many seconds are over; `between` is done behind each.
template <class Between>
std::vector<double> time_calls(Call &call, double budget, size_t most, Between between) {
    std::vector<double> calls;
    call.run();
    const double begin = kiln::harness::now();
    while (calls.size() < 5 || (kiln::harness::now() - begin < budget && calls.size() < most)) {
        const double before = kiln::harness::now();
        call.run();
        calls.push_back(kiln::harness::now() - before);
        between();
    }
    return calls;
}

// Whole calls, calls with their steps told, and calls in which each step runs several times, so that it finds its
// weights where the time before left them; in turns.
void bench(const Networks &networks, Call &call, int32_t index, double budget) {
    std::vector<std::vector<double>> steps, warm;
    const std::vector<double> calls = time_calls(call, budget, 10000, [&] {
        if (networks.traced_at == nullptr) return;
        add_step_times(call, *networks.traced_at(index), 1, &steps);
        add_step_times(call, *networks.traced_at(index), warm_repeats, &warm);
    });
    print(index == 0 ? "[{\"calls\": " : " {\"calls\": ", calls, ",\n");
    print(" \"steps\": ", steps, ",\n");
    print(" \"warm\": ", warm, networks.at(index + 1) == nullptr ? "}]\n" : "},\n");
}

// "net", or "net at width=160".
std::string called(const kiln_network &network) {
    return std::string(network.name) + (*network.sizes != '\0' ? " at " : "") + network.sizes;
}

// Whole calls alone.
void tell_time(Call &call, const kiln_network &network, double budget) {
    std::vector<double> calls = time_calls(call, budget, 100000, [] {});
    std::sort(calls.begin(), calls.end());
    std::printf("%s: %.3f ms, the middle one of %zu calls; the fastest %.3f ms\n", called(network).c_str(),
                calls[calls.size() / 2] * 1e3, calls.size(), calls[0] * 1e3);
}

// Compares the outputs with what a reference made of the same inputs; whether all are right.
bool verify(Call &call, const kiln_network &network, const std::string &folder) {
    double tolerance = 0;
    std::ifstream said(folder + "/tolerance.txt");
    if (!(said >> tolerance))
        throw std::runtime_error(folder + " has no expected outputs: `kiln compile`, which writes them, said why");
    call.run();
    int failed = 0;
    for (int i = 0; i < network.output_count; i++) {
        const kiln_network_value &output = network.outputs[i];
        int64_t count = 1;
        for (int32_t d = 0; d < output.rank; d++) count *= output.shape[d];
        const kiln::network_program::Comparison result =
            kiln::network_program::compare(output.dtype, count, call.output(i), call.expected(i).data());
        const bool is_ok = result.is_within(tolerance);
        std::printf("%s: largest difference %.3g, largest value %.3g: %s\n", output.name, result.difference,
                    result.largest, is_ok ? "ok" : "failed");
        failed += !is_ok;
    }
    std::printf("%s: %d outputs: %d failed\n", called(network).c_str(), static_cast<int>(network.output_count), failed);
    return failed == 0;
}

// Throws where an output is not the same, to the bit.
void require_same_outputs(const Call &call, const Call &other, const kiln_network &network) {
    for (int i = 0; i < network.output_count; i++) {
        const kiln_network_value &output = network.outputs[i];
        if (!std::equal(call.output(i), call.output(i) + output.bytes, other.output(i))) {
            throw std::runtime_error(std::string(output.name) +
                                     " is another where tensors share memory than where each has its own");
        }
    }
}

int run(const Networks &networks, const std::vector<std::string> &arguments) {
    const std::string command = arguments.empty() ? "" : arguments[0];
    const bool timed = command == "bench" || command == "time", untimed = command == "run" || command == "verify";
    if (!(timed && arguments.size() == 4) && !(untimed && arguments.size() == 3)) {
        std::fprintf(stderr, "usage: run|verify FOLDER WORKERS | bench|time FOLDER WORKERS SECONDS\n");
        return 2;
    }
    bool is_ok = true;
    for (int32_t i = 0; networks.at(i) != nullptr; i++) {
        const kiln_network &network = *networks.at(i);
        const std::string folder = arguments[1] + "/" + std::to_string(i);
        const int workers = std::max(std::atoi(arguments[2].c_str()), 1);
        Call call(network, folder, workers);
        if (command == "bench") {
            bench(networks, call, i, std::atof(arguments[3].c_str()));
        } else if (command == "time") {
            tell_time(call, network, std::atof(arguments[3].c_str()));
        } else if (command == "verify") {
            is_ok = verify(call, network, folder) && is_ok;
        } else {
            call.run();
            call.write();
            if (networks.planned_at == nullptr) continue;
            Call planned(*networks.planned_at(i), folder, workers);
            planned.run();
            require_same_outputs(call, planned, network);
        }
    }
    return is_ok ? 0 : 1;
}

// What the command line means where the program has one command and one folder.
std::vector<std::string> with_own_command(const Networks &networks, std::vector<std::string> arguments) {
    if (networks.command == nullptr) return arguments;
    const bool is_timed = std::string(networks.command) == "time";
    if (arguments.empty()) arguments.emplace_back("1");
    if (is_timed && arguments.size() == 1) arguments.emplace_back("2");
    if (arguments.size() != (is_timed ? 2 : 1) || std::atoi(arguments[0].c_str()) < 1) {
        std::fprintf(stderr, "usage: [WORKERS%s]\n", is_timed ? " [SECONDS]" : "");
        std::exit(2);
    }
    arguments.insert(arguments.begin(), {networks.command, networks.values});
    return arguments;
}

}  // namespace

int main(const Networks &networks, int argc, char **argv) {
    try {
        return run(networks, with_own_command(networks, {argv + 1, argv + argc}));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

}  // namespace kiln::network_program

// What a network with its steps told calls.
extern "C" int32_t kiln_network_repeats(int32_t) {
    return kiln::network_program::step_repeats;
}
extern "C" int32_t kiln_network_step(int32_t) {
    if (kiln::network_program::step_times != nullptr)
        kiln::network_program::step_times->push_back(kiln::harness::now());
    return kiln_ok;
}
