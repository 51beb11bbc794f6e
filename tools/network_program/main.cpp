// The program that kiln run, verify and bench start for a network: compiled with -DKILN_LIBRARY_HEADER='"net.h"' and
// -DKILN_NETWORK=net_network, which tells of the network; -DKILN_NETWORK_STEPS=net_network_traced, the same with its
// steps told, where it is to be timed by them.
//
//     PROGRAM run FOLDER WORKERS            FOLDER/input0.bin, ... -> FOLDER/output0.bin, ..., and FOLDER/arena.bin
//     PROGRAM bench FOLDER WORKERS SECONDS  the seconds of calls, as JSON: {"calls": [...], "steps": [[...], ...]}
#include KILN_LIBRARY_HEADER

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/buffer.h"
#include "harness/machine.h"
#include "harness/threads.h"
#include "harness/timing.h"

namespace {

std::vector<double> *step_times = nullptr;  // when each step began, and when the last was done

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

    void write() const {
        for (int i = 0; i < network_.output_count; i++) write(path("output", i), tensors_[network_.input_count + i]);
        write(folder_ + "/arena.bin", tensors_[network_.input_count + network_.output_count]);
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

// Whole calls and calls with their steps told, in turns.
void bench(Call &call, double budget) {
    std::vector<double> calls;
    std::vector<std::vector<double>> steps;
    call.run(*KILN_NETWORK());
    const double begin = kiln::harness::now();
    while (calls.size() < 5 || (kiln::harness::now() - begin < budget && calls.size() < 10000)) {
        const double before = kiln::harness::now();
        call.run(*KILN_NETWORK());
        calls.push_back(kiln::harness::now() - before);
#ifdef KILN_NETWORK_STEPS
        std::vector<double> times;
        step_times = &times;
        call.run(*KILN_NETWORK_STEPS());
        step_times = nullptr;
        for (size_t i = 0; i + 1 < times.size(); i++) {
            if (steps.size() <= i) steps.emplace_back();
            steps[i].push_back(times[i + 1] - times[i]);
        }
#endif
    }
    print("{\"calls\": ", calls, ",\n \"steps\": [");
    for (size_t i = 0; i < steps.size(); i++) print(i == 0 ? "" : ",\n  ", steps[i], "");
    std::printf("]}\n");
}

int run(const std::vector<std::string> &arguments) {
    const bool times = arguments.size() == 4 && arguments[0] == "bench";
    if (!times && !(arguments.size() == 3 && arguments[0] == "run")) {
        std::fprintf(stderr, "usage: run FOLDER WORKERS | bench FOLDER WORKERS SECONDS\n");
        return 2;
    }
    Call call(*KILN_NETWORK(), arguments[1], std::max(std::atoi(arguments[2].c_str()), 1));
    if (times) {
        bench(call, std::atof(arguments[3].c_str()));
    } else {
        call.run(*KILN_NETWORK());
        call.write();
    }
    return 0;
}

}  // namespace

#ifdef KILN_NETWORK_STEPS
extern "C" int32_t kiln_network_step(int32_t) {
    if (step_times != nullptr) step_times->push_back(kiln::harness::now());
    return kiln_ok;
}
#endif

int main(int argc, char **argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
