// The function that a program calls for a whole network: it checks its pointers, and calls one kernel after the other
// with the places in the arena that were planned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// Where something lies that a kernel takes.
struct NetworkPointer {
    enum class Base { null, field, constant, arena, workspace, threads };
    Base base = Base::null;
    int index = 0;       // of the field or the constant
    int64_t offset = 0;  // in bytes, from there
};

struct NetworkCall {
    struct Kernel {
        std::string symbol;
        uint64_t features;  // 0 where there is nothing to pick
    };
    std::vector<Kernel> kernels;  // the most demanding first; empty for a callback and a check
    std::vector<NetworkPointer> arguments;
    int callback = -1;    // the field that holds the function to call
    size_t outputs = 0;   // of a callback: so many of the last arguments
    std::string refusal;  // of a check: what is wrong where its argument points to a 0
};

struct NetworkField {
    std::string name;
    int64_t alignment;  // in bytes; 0 where the pointer may be null
};

struct NetworkFunction {
    std::string symbol;
    std::string called;  // what messages call it
    std::vector<NetworkField>
        fields;  // of the argument struct, all pointers, "arena", "threads" and "context" by these names
    std::vector<NetworkCall> calls;
    int64_t arena_bytes = 0;  // behind these lies the workspace of calls with several workers
    // Whether the i-th step is run kiln_network_repeats(i) times, and kiln_network_step(i) called before each and
    // behind the last.
    bool is_traced = false;
};

// A size that the program says: an int64_t.
struct NetworkSizeField {
    std::string name;  // as messages call it
    std::vector<int64_t> values;
};

// A function that picks the network of the sizes that its argument struct begins with; the fields of the functions that
// it picks from stand behind them.
struct NetworkChoice {
    std::string symbol;
    std::vector<NetworkSizeField> sizes;
    std::vector<std::string> functions;  // one for each combination, those of the last size's values next to each other
};

struct NetworkModule {
    std::string name;
    std::string architecture;                     // TargetModel's
    std::vector<std::vector<uint8_t>> constants;  // tensors' bytes
    std::vector<NetworkFunction> functions;
    std::vector<NetworkChoice> choices;
};

// "160, 320 or 640"
std::string listed(const std::vector<int64_t> &values);

// Writes an object with int32_t <symbol>(const <symbol>_args *) for each function and each choice.
void generate_network_functions(const NetworkModule &network, const std::string &object_file);

}  // namespace kiln
