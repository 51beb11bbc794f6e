// ResNet-50 as a program has it: times calls of it, and writes what the last one computes.
//
//     network INPUT.npy CALLS OUTPUT.npy
//
// The seconds of every call go to stdout, as JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "resnet50.h"

namespace {

alignas(KILN_ALIGNMENT) unsigned char arena[RESNET50_ARENA_BYTES];

int fail(const std::string &what) {
    std::fprintf(stderr, "network: %s\n", what.c_str());
    return 1;
}

std::string read_file(const char *path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A NumPy file of float32, version 1: its header has a multiple of 64 bytes.
std::string npy_of(const kiln_network_value &value, const std::vector<float> &data) {
    std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    for (int32_t d = 0; d < value.rank; ++d) head += std::to_string(value.shape[d]) + ",";
    head += ")}";
    head.resize((head.size() + 10 + 64) / 64 * 64 - 11, ' ');
    head += '\n';
    const char size[2] = {static_cast<char>(head.size() % 256), static_cast<char>(head.size() / 256)};
    return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + head +
           std::string(reinterpret_cast<const char *>(data.data()), data.size() * sizeof(float));
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 4) return fail("usage: network INPUT.npy CALLS OUTPUT.npy");
    const kiln_network *network = resnet50_network();  // tells of shapes; the call below needs nothing of it
    const std::string file = read_file(argv[1]);
    const auto bytes = static_cast<size_t>(network->inputs[0].bytes);
    if (file.size() < bytes) return fail(std::string(argv[1]) + " does not hold the network's input");
    std::vector<float> image(bytes / sizeof(float));
    file.copy(reinterpret_cast<char *>(image.data()), bytes, file.size() - bytes);
    std::vector<float> result(static_cast<size_t>(network->outputs[0].bytes) / sizeof(float));

    resnet50_args args = {};
    args.image = image.data();
    args.result = result.data();
    args.arena = arena;
    const int calls = std::atoi(argv[2]);
    for (int call = 0; call <= calls; ++call) {  // the first one warms up
        const auto begin = std::chrono::steady_clock::now();
        if (resnet50_run(&args) != kiln_ok) return fail(kiln_last_message());
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (call > 0) std::printf("%s%.9f", call == 1 ? "[" : ", ", seconds);
    }
    std::printf("]\n");
    std::ofstream output(argv[3], std::ios::binary);
    output << npy_of(network->outputs[0], result);
    return output.flush() ? 0 : fail(std::string(argv[3]) + " cannot be written");
}
