// Symbol tables and sections of ELF objects, of 32 and 64 bits, and the list of what they may need.
#include "lowering/object_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace kiln {
namespace {

// All that a kernel may need. A name with '*' behind stands for all that begin so.
constexpr std::string_view may_be_needed[] = {
    // Kiln's runtime.
    "kiln_parallel_for", "kiln_parallel_for_outer", "kiln_parallel_for_joined", "kiln_cpu_features", "kiln_refuse",
    "kiln_refuse_size", "kiln_workers", "kiln_call_back", "kiln_run_parts",
    // Its part for GPUs.
    "kiln_gpu_load", "kiln_gpu_launch",
    // What every C compiler may call, with an operating system or without.
    "memcpy", "memmove", "memset",
    // libm.
    "ceil", "ceilf", "exp", "expf", "floor", "floorf", "fma", "fmaf", "fmax", "fmaxf", "fmin", "fminf", "fmod", "fmodf",
    "log", "logf", "nearbyint", "nearbyintf", "pow", "powf", "rint", "rintf", "round", "roundeven", "roundevenf",
    "roundf", "sqrt", "sqrtf", "tanh", "tanhf", "trunc", "truncf",
    // 32-bit ARM's run-time ABI: divisions, 64-bit integers and the like, in every compiler's library.
    "__aeabi_*"};

bool allows(std::string_view pattern, std::string_view name) {
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
}

// The types of one class of ELF files.
struct Elf32 {
    using Header = Elf32_Ehdr;
    using Section = Elf32_Shdr;
    using Symbol = Elf32_Sym;
};
struct Elf64 {
    using Header = Elf64_Ehdr;
    using Section = Elf64_Shdr;
    using Symbol = Elf64_Sym;
};

template <typename Elf>
class ObjectReader {
  public:
    ObjectReader(const std::string &name, const std::string &content) : name_(name), content_(content) {
        header_ = at<typename Elf::Header>(0);
        if (header_.e_type != ET_REL) {
            throw std::runtime_error(name_ + " is no relocatable object");
        }
    }

    std::vector<CodeSection> code() const {
        std::vector<CodeSection> result;
        for (size_t s = 0; s < header_.e_shnum; s++) {
            const auto part = section(s);
            if (part.sh_type != SHT_PROGBITS || (part.sh_flags & SHF_EXECINSTR) == 0) {
                continue;
            }
            if (part.sh_offset > content_.size() || part.sh_size > content_.size() - part.sh_offset) {
                throw std::runtime_error(name_ + " ends early");
            }
            result.push_back({part.sh_offset, part.sh_size});
        }
        return result;
    }

    int64_t loaded_bytes() const {
        int64_t bytes = 0;
        for (size_t s = 0; s < header_.e_shnum; s++) {
            const auto part = section(s);
            // How stacks are unwound is for debuggers: kernels throw nothing.
            if ((part.sh_flags & SHF_ALLOC) != 0 && !name_of(part).ends_with("eh_frame")) {
                bytes += static_cast<int64_t>(part.sh_size);
            }
        }
        return bytes;
    }

    // Where in the file the alignments of sections of constants are, numbers of alignment_bytes.
    std::vector<uint64_t> alignments_of_constants() const {
        std::vector<uint64_t> result;
        for (size_t s = 0; s < header_.e_shnum; s++) {
            const auto part = section(s);
            if (part.sh_type == SHT_PROGBITS && (part.sh_flags & SHF_ALLOC) != 0 && name_of(part) == ".rodata") {
                result.push_back(header_.e_shoff + s * sizeof(typename Elf::Section) +
                                 offsetof(typename Elf::Section, sh_addralign));
            }
        }
        return result;
    }
    static constexpr int alignment_bytes = sizeof(Elf::Section::sh_addralign);

    ObjectSymbols symbols() const {
        ObjectSymbols result;
        for (size_t s = 0; s < header_.e_shnum; s++) {
            const auto table = section(s);
            if (table.sh_type == SHT_SYMTAB) {
                read_table(table, section(table.sh_link), result);
            }
        }
        for (std::vector<std::string> *names : {&result.needed, &result.defined}) {
            std::sort(names->begin(), names->end());
        }
        return result;
    }

  private:
    template <typename T>
    T at(uint64_t offset) const {
        T value;
        if (offset > content_.size() || sizeof value > content_.size() - offset) {
            throw std::runtime_error(name_ + " ends early");
        }
        std::memcpy(&value, content_.data() + offset, sizeof value);
        return value;
    }

    typename Elf::Section section(size_t index) const {
        return at<typename Elf::Section>(header_.e_shoff + index * sizeof(typename Elf::Section));
    }

    std::string name_of(const typename Elf::Section &part) const {
        return text(uint64_t{section(header_.e_shstrndx).sh_offset} + part.sh_name);
    }

    std::string text(uint64_t offset) const {
        const size_t end = offset < content_.size() ? content_.find('\0', offset) : std::string::npos;
        if (end == std::string::npos) {
            throw std::runtime_error(name_ + " ends early");
        }
        return content_.substr(offset, end - offset);
    }

    void read_table(const typename Elf::Section &table, const typename Elf::Section &names,
                    ObjectSymbols &result) const {
        // The first entry is none.
        for (uint64_t i = sizeof(typename Elf::Symbol); i < table.sh_size; i += sizeof(typename Elf::Symbol)) {
            const auto symbol = at<typename Elf::Symbol>(table.sh_offset + i);
            const int binding = symbol.st_info >> 4;  // the same in both classes
            if (binding == STB_LOCAL) {
                continue;
            }
            auto &list = symbol.st_shndx == SHN_UNDEF ? result.needed : result.defined;
            list.push_back(text(uint64_t{names.sh_offset} + symbol.st_name));
        }
    }

    const std::string &name_;
    const std::string &content_;
    typename Elf::Header header_;
};

// What `get` takes of the reader of an object.
template <typename Get>
auto read_object(const std::string &object_file, const Get &get) {
    std::ifstream file(object_file, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const bool is_little = content.size() > EI_DATA && content[EI_DATA] == ELFDATA2LSB;
    if (!is_little || content.compare(0, SELFMAG, ELFMAG) != 0) {
        throw std::runtime_error(object_file + " is no ELF object");
    }
    return content[EI_CLASS] == ELFCLASS32 ? get(ObjectReader<Elf32>(object_file, content))
                                           : get(ObjectReader<Elf64>(object_file, content));
}

// "halide_free, halide_malloc"
std::string listed(const std::vector<std::string> &names) {
    std::string text;
    for (const std::string &name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

}  // namespace

ObjectSymbols symbols_of_object(const std::string &object_file) {
    return read_object(object_file, [](const auto &reader) { return reader.symbols(); });
}

std::vector<CodeSection> code_of_object(const std::string &object_file) {
    return read_object(object_file, [](const auto &reader) { return reader.code(); });
}

int64_t loaded_bytes_of_object(const std::string &object_file) {
    return read_object(object_file, [](const auto &reader) { return reader.loaded_bytes(); });
}

void align_constants(const std::string &object_file, int alignment) {
    read_object(object_file, [&](const auto &reader) {
        std::fstream file(object_file, std::ios::binary | std::ios::in | std::ios::out);
        const auto value = static_cast<uint64_t>(alignment);  // the least significant byte first, as in the file
        for (const uint64_t place : reader.alignments_of_constants()) {
            file.seekp(static_cast<std::streamoff>(place));
            file.write(reinterpret_cast<const char *>(&value), reader.alignment_bytes);
        }
        file.close();
        if (!file) {
            throw std::runtime_error(object_file + " cannot be written");
        }
    });
}

void check_object_symbols(const std::string &object_file, const std::vector<std::string> &own_prefixes) {
    const ObjectSymbols symbols = symbols_of_object(object_file);
    const auto is_own = [&](const std::string &name) {
        return std::any_of(own_prefixes.begin(), own_prefixes.end(),
                           [&](const std::string &prefix) { return name.starts_with(prefix); });
    };
    std::vector<std::string> needed, defined;
    for (const std::string &name : symbols.needed) {
        const bool may = std::any_of(std::begin(may_be_needed), std::end(may_be_needed),
                                     [&](std::string_view pattern) { return allows(pattern, name); });
        if (!may && !is_own(name)) {
            needed.push_back(name);
        }
    }
    for (const std::string &name : symbols.defined) {
        if (!is_own(name)) {
            defined.push_back(name);
        }
    }
    if (!needed.empty()) {
        throw std::runtime_error("its object needs " + listed(needed) +
                                 ", which a kernel may not: programs need not have it");
    }
    if (!defined.empty()) {
        throw std::runtime_error("its object defines " + listed(defined) + ", which are not the library's own names");
    }
}

}  // namespace kiln
