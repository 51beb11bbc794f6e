// What a compiled object may need of the program it is linked into, and whether it keeps to that; where its code and
// its constants lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// The symbols of an ELF object for any target, each list sorted.
struct ObjectSymbols {
    std::vector<std::string> needed;   // that it uses and does not define
    std::vector<std::string> defined;  // that others may use
};

// Throws std::runtime_error where the file is no such object.
ObjectSymbols symbols_of_object(const std::string &object_file);

// A part of an ELF object's file that holds instructions, and no data.
struct CodeSection {
    uint64_t offset = 0, size = 0;
};

// In the order of the file's table of sections. Throws std::runtime_error where the file is no such object.
std::vector<CodeSection> code_of_object(const std::string &object_file);

// Of all that a program has in memory, or in flash, of an object: instructions and constants. Throws as code_of_object.
int64_t loaded_bytes_of_object(const std::string &object_file);

// Has the sections of constants of an ELF object begin at multiples of `alignment`: where in a section each constant
// lies stays as it is. Throws as code_of_object.
void align_constants(const std::string &object_file, int alignment);

// Throws std::runtime_error, naming what is wrong, where an object needs a symbol that neither begins with one of these
// prefixes, the library's own functions', nor is one that every program has, or where it defines one that begins with
// none of them.
void check_object_symbols(const std::string &object_file, const std::vector<std::string> &own_prefixes);

}  // namespace kiln
