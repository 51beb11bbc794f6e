// NumPy's .npy files, versions 1 to 3: how tensors travel in and out of the tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kiln/problem.h"

namespace kiln::tools {

// An array in memory, dense, in C order.
struct NpyArray {
    std::string type;  // NumPy's: f4 f8 f2 u2 i1 u1 i4 i8; bfloat16 travels as u2
    std::vector<int64_t> shape;
    std::vector<std::byte> data;

    int64_t elements() const;
};

// What a file says it holds.
struct NpyHeader {
    std::string type;
    std::vector<int64_t> shape;
    bool fortran_order = false;
    int64_t data_offset = 0;  // bytes from the beginning of the file
};

// The type an element of `type` has in a .npy file.
const char *npy_type(DType type);

// All throw Error, which names the file and what is wrong with it. Files of other types than NpyArray's, big-endian
// ones and files shorter than their shape are refused.
NpyHeader read_npy_header(const std::string &path);
NpyArray read_npy(const std::string &path);
// Version 1. `data` holds the array's bytes, in C order.
void write_npy(const std::string &path, const std::string &type, const std::vector<int64_t> &shape, const void *data);

}  // namespace kiln::tools
