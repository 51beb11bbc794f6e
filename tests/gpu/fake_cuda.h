// A CUDA driver that runs nothing: it takes the calls of kiln/gpu.h's runtime, checks their order, and remembers.
#pragma once

#include <string>
#include <vector>

struct FakeCuda {
    int fails_with = 0;  // what the function called `failing` returns
    std::string failing;
    int depth = 0;         // contexts pushed and not popped
    bool stray = false;    // whether a call needed a context and there was none
    int live = 0;          // streams, modules, allocations and contexts that exist
    int shared_limit = 0;  // of the last function whose shared memory was raised
    std::string source;    // of the last module
    struct Launch {
        std::string entry;
        unsigned blocks[3], threads[3], shared_bytes;
        void *stream;
        unsigned long long first;  // the first argument's value, as a pointer, and the second's, as an int
        int second;
    };
    std::vector<Launch> launches;
};
