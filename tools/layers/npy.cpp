// The .npy format: "\x93NUMPY", two bytes of version, the header's length (2 bytes, 4 from version 2), a header that is
// a Python dictionary with 'descr', 'fortran_order' and 'shape', then the data.
#include "layers/npy.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"

namespace kiln::tools {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::array<std::string_view, 8> types = {"f4", "f8", "f2", "u2", "i1", "u1", "i4", "i8"};

[[noreturn]] void fail(const std::string &path, const std::string &what) {
    throw Error(fmt::format("{}: {}", path, what));
}

int64_t bytes_of(std::string_view type) {
    return type.back() - '0';
}

// Throws where the product does not fit, which no file on disk can hold.
int64_t element_count(const std::string &path, const std::vector<int64_t> &shape, int64_t element_bytes) {
    int64_t count = 1, bytes = 0;
    for (const int64_t size : shape)
        if (__builtin_mul_overflow(count, size, &count) || __builtin_mul_overflow(count, element_bytes, &bytes))
            fail(path, fmt::format("its shape [{}] is too large", fmt::join(shape, ", ")));
    return count;
}

// Walks the header's dictionary.
class HeaderParser {
  public:
    HeaderParser(const std::string &path, std::string_view text) : path_(path), text_(text) {}

    NpyHeader parse() {
        NpyHeader header;
        bool seen[3] = {};
        expect('{');
        while (!accept('}')) {
            const std::string key = quoted();
            expect(':');
            if (key == "descr") {
                header.type = type_of(value());
                seen[0] = true;
            } else if (key == "fortran_order") {
                header.fortran_order = value() == "True";
                seen[1] = true;
            } else if (key == "shape") {
                header.shape = shape();
                seen[2] = true;
            } else {
                bad();
            }
            accept(',');
        }
        if (!seen[0] || !seen[1] || !seen[2]) bad();
        return header;
    }

  private:
    [[noreturn]] void bad() { fail(path_, fmt::format("its .npy header is malformed at character {}", position_)); }

    void skip_spaces() {
        while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
    }
    bool accept(char c) {
        skip_spaces();
        if (position_ >= text_.size() || text_[position_] != c) return false;
        ++position_;
        return true;
    }
    void expect(char c) {
        if (!accept(c)) bad();
    }

    std::string quoted() {
        skip_spaces();
        const char quote = position_ < text_.size() ? text_[position_] : ' ';
        const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, position_ + 1) : std::string_view::npos;
        if (end == std::string_view::npos) bad();
        const std::string text(text_.substr(position_ + 1, end - position_ - 1));
        position_ = end + 1;
        return text;
    }

    // A quoted text, or everything up to the next comma or brace; a structured type ("[('a', ...") ends up here too.
    std::string value() {
        skip_spaces();
        if (position_ < text_.size() && (text_[position_] == '\'' || text_[position_] == '"')) return quoted();
        const size_t end = text_.find_first_of(",}", position_);
        if (end == std::string_view::npos) bad();
        const std::string text(text_.substr(position_, end - position_));
        position_ = end;
        return text;
    }

    std::vector<int64_t> shape() {
        std::vector<int64_t> sizes;
        expect('(');
        while (!accept(')')) {
            skip_spaces();
            int64_t size = 0;
            const size_t begin = position_;
            for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_)
                if (__builtin_mul_overflow(size, 10, &size) ||
                    __builtin_add_overflow(size, text_[position_] - '0', &size))
                    bad();
            if (position_ == begin) bad();
            accept('L');  // Python 2 wrote long integers so
            sizes.push_back(size);
            accept(',');
        }
        return sizes;
    }

    std::string type_of(const std::string &descr) {
        for (const std::string_view type : types) {
            const char order = descr.empty() ? ' ' : descr[0];
            const bool little = order == '<' || order == '=' || (order == '|' && bytes_of(type) == 1);
            if (little && std::string_view(descr).substr(1) == type) return std::string(type);
        }
        fail(path_, fmt::format("its dtype is {}: little-endian {} can be read", descr, fmt::join(types, ", ")));
    }

    const std::string &path_;
    std::string_view text_;
    size_t position_ = 0;
};

std::ifstream open(const std::string &path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) fail(path, "is a folder, not a .npy file");
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    return file;
}

NpyHeader read_header(const std::string &path, std::ifstream &file) {
    char start[12] = {};
    file.read(start, 10);
    if (!file || std::string_view(start, magic.size()) != magic) fail(path, "is not a .npy file");
    const int version = start[6];
    if (version < 1 || version > 3) fail(path, fmt::format("is of .npy version {}: 1 to 3 can be read", version));
    if (version > 1) file.read(start + 10, 2);

    const auto byte = [&](int at) { return size_t{static_cast<unsigned char>(start[at])}; };
    const size_t length = byte(8) | byte(9) << 8 | (version > 1 ? byte(10) << 16 | byte(11) << 24 : 0);
    if (length > (size_t{1} << 20)) fail(path, fmt::format("its .npy header is {} bytes long", length));
    std::string text(length, ' ');
    file.read(text.data(), static_cast<std::streamsize>(length));
    if (!file) fail(path, "ends within its .npy header");

    NpyHeader header = HeaderParser(path, text).parse();
    header.data_offset = static_cast<int64_t>((version > 1 ? 12 : 10) + length);
    return header;
}

// Fortran order walks the first axis fastest.
std::vector<std::byte> to_c_order(const std::vector<std::byte> &data, const std::vector<int64_t> &shape, size_t bytes) {
    std::vector<std::byte> ordered(data.size());
    std::vector<size_t> strides(shape.size());
    size_t stride = 1;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        strides[axis] = stride;
        stride *= static_cast<size_t>(shape[axis]);
    }
    std::vector<int64_t> index(shape.size());
    size_t from = 0;
    for (size_t to = 0; to < data.size(); to += bytes) {
        std::memcpy(&ordered[to], &data[from * bytes], bytes);
        for (size_t axis = shape.size(); axis-- > 0;) {
            from += strides[axis];
            if (++index[axis] < shape[axis]) break;
            from -= strides[axis] * static_cast<size_t>(shape[axis]);
            index[axis] = 0;
        }
    }
    return ordered;
}

}  // namespace

int64_t NpyArray::elements() const {
    return type.empty() ? 0 : static_cast<int64_t>(data.size()) / bytes_of(type);
}

const char *npy_type(DType type) {
    switch (type) {
        case DType::f64:
            return "f8";
        case DType::f32:
            return "f4";
        case DType::f16:
            return "f2";
        case DType::bf16:
            return "u2";
        case DType::s8:
            return "i1";
        case DType::u8:
            return "u1";
        case DType::s32:
            return "i4";
    }
    return "";
}

NpyHeader read_npy_header(const std::string &path) {
    std::ifstream file = open(path);
    return read_header(path, file);
}

NpyArray read_npy(const std::string &path) {
    std::ifstream file = open(path);
    const NpyHeader header = read_header(path, file);
    const int64_t element_bytes = bytes_of(header.type);
    const int64_t bytes = element_count(path, header.shape, element_bytes) * element_bytes;
    const auto held = static_cast<int64_t>(std::filesystem::file_size(path)) - header.data_offset;
    if (held < bytes)
        fail(path, fmt::format("is cut short: its shape [{}] of {} needs {} bytes of data, it holds {}",
                               fmt::join(header.shape, ", "), header.type, bytes, held));

    NpyArray array{header.type, header.shape, std::vector<std::byte>(static_cast<size_t>(bytes))};
    file.read(reinterpret_cast<char *>(array.data.data()), bytes);
    if (!file) fail(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (header.fortran_order) array.data = to_c_order(array.data, array.shape, static_cast<size_t>(element_bytes));
    return array;
}

void write_npy(const std::string &path, const std::string &type, const std::vector<int64_t> &shape, const void *data) {
    const int64_t bytes = element_count(path, shape, bytes_of(type)) * bytes_of(type);
    const std::string tuple = fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
    std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                                     bytes_of(type) == 1 ? '|' : '<', type, tuple);
    // NumPy ends the header with a newline, where a multiple of 64 bytes is reached.
    header.resize((magic.size() + 4 + header.size() + 1 + 63) / 64 * 64 - magic.size() - 5, ' ');
    header += '\n';

    std::ofstream file(path, std::ios::binary);
    file << magic << '\x01' << '\0' << static_cast<char>(header.size() & 255) << static_cast<char>(header.size() >> 8)
         << header;
    file.write(static_cast<const char *>(data), bytes);
    file.close();
    if (!file) {
        const std::string why = std::strerror(errno);
        std::error_code ignored;
        if (std::filesystem::is_regular_file(path, ignored)) {  // a device is not ours to remove
            std::filesystem::remove(path, ignored);             // a part of a file would be taken for one
        }
        fail(path, fmt::format("cannot be written: {}", why));
    }
}

}  // namespace kiln::tools
