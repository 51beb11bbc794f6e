#include "layers/npy.h"

#include <cstring>
#include <filesystem>

#include "testing.h"

namespace kiln::tools {
namespace {

using testing::HasSubstr;

// A file of the given version, laid out by hand as the format's description says.
std::string npy(char version, const std::string &header, const std::string &data) {
    std::string file = std::string("\x93NUMPY") + version + '\0';
    const size_t length = header.size();
    file += static_cast<char>(length & 255);
    file += static_cast<char>(length >> 8);
    if (version > 1) file += std::string(2, '\0');
    return file + header + data;
}

template <typename Value>
std::vector<Value> values(const NpyArray &array) {
    std::vector<Value> result(array.data.size() / sizeof(Value));
    std::memcpy(result.data(), array.data.data(), array.data.size());
    return result;
}

template <typename Value>
std::string bytes(const std::vector<Value> &data) {
    return {reinterpret_cast<const char *>(data.data()), data.size() * sizeof(Value)};
}

TEST(Npy, RoundTripOfEveryType) {
    const Files files;
    const std::string data = "0123456789abcdef0123456789abcdef0123456789abcdef";  // 6 elements of up to 8 bytes
    for (const std::string type : {"f4", "f8", "f2", "u2", "i1", "u1", "i4", "i8"}) {
        const std::string path = files.path(type + ".npy");
        write_npy(path, type, {2, 3}, data.data());
        const NpyArray array = read_npy(path);
        EXPECT_EQ(array.type, type);
        EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
        EXPECT_EQ(array.elements(), 6);
        EXPECT_EQ(bytes(array.data), data.substr(0, array.data.size()));
    }
}

TEST(Npy, RoundTripOfEveryRank) {
    const Files files;
    const std::vector<float> data = {1, 2, 3, 4};
    for (const std::vector<int64_t> &shape : {std::vector<int64_t>{}, {4}, {1, 2, 2}, {0, 3}}) {
        write_npy(files.path("a.npy"), "f4", shape, data.data());
        EXPECT_EQ(read_npy(files.path("a.npy")).shape, shape);
        EXPECT_EQ(read_npy_header(files.path("a.npy")).data_offset % 64, 0);
    }
}

TEST(Npy, Versions) {
    const Files files;
    const std::vector<int32_t> data = {1, -2, 3};
    for (const char version : {'\1', '\2', '\3'}) {
        const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }\n";
        const NpyArray array = read_npy(files.write("a.npy", npy(version, header, bytes(data))));
        EXPECT_EQ(values<int32_t>(array), data) << int{version};
    }
}

TEST(Npy, FortranOrderIsTurned) {
    const Files files;
    const std::string header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n";
    const std::vector<int32_t> columns = {0, 10, 1, 11, 2, 12};
    const NpyArray array = read_npy(files.write("a.npy", npy(1, header, bytes(columns))));
    EXPECT_EQ(values<int32_t>(array), (std::vector<int32_t>{0, 1, 2, 10, 11, 12}));
}

TEST(Npy, KeysInAnyOrderAndQuotes) {
    const Files files;
    const std::string header = "{\"shape\":(1L,1),\"fortran_order\":False,\"descr\":\"|u1\"}";
    const NpyArray array = read_npy(files.write("a.npy", npy(1, header, "x")));
    EXPECT_EQ(array.shape, (std::vector<int64_t>{1, 1}));
    EXPECT_EQ(array.type, "u1");
}

struct BadNpy {
    const char *what;
    std::string content;
    const char *message;
};

TEST(Npy, BadFiles) {
    const auto with = [](const std::string &header, const std::string &data = "") { return npy(1, header, data); };
    const std::vector<BadNpy> cases = {
        {"empty", "", "is not a .npy file"},
        {"other", "PK\3\4 something else", "is not a .npy file"},
        {"version", npy(9, "{}", ""), "is of .npy version 9"},
        {"cut header", npy(1, "{'descr': '<f4'", "").substr(0, 14), "ends within its .npy header"},
        {"no keys", with("{}"), "header is malformed"},
        {"no end", with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,"), "header is malformed"},
        {"no quote", with("{'descr': '<f4"), "header is malformed"},
        {"negative", with("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "header is malformed"},
        {"big-endian", with("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "1234"), "its dtype is >f4"},
        {"complex", with("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "12345678"), "its dtype is <c8"},
        {"structured", with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
         "dtype is [('a'"},
        {"cut data", with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", "12345678"),
         "is cut short: its shape [2, 2] of f4 needs 16 bytes of data, it holds 8"},
        {"overflow", with("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
         "is too large"},
    };
    const Files files;
    for (const BadNpy &bad : cases) {
        const std::string path = files.write("bad.npy", bad.content);
        const std::string message = error_of([&] { read_npy(path); });
        EXPECT_THAT(message, HasSubstr(bad.message)) << bad.what;
        EXPECT_THAT(message, HasSubstr(path)) << bad.what;
    }
}

TEST(Npy, BadPaths) {
    const Files files;
    EXPECT_THAT(error_of([&] { read_npy(files.path("none.npy")); }), HasSubstr("No such file"));
    EXPECT_THAT(error_of([&] { read_npy(files.folder()); }), HasSubstr("is a folder"));
    EXPECT_THAT(error_of([&] { write_npy(files.path("no/a.npy"), "f4", {0}, nullptr); }),
                HasSubstr("cannot be written"));
    EXPECT_THAT(error_of([&] { write_npy("/dev/full", "f4", {0}, nullptr); }), HasSubstr("No space left"));
    EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));  // which root could remove
}

TEST(Npy, TypesOfTensors) {
    EXPECT_STREQ(npy_type(DType::f32), "f4");
    EXPECT_STREQ(npy_type(DType::bf16), "u2");
    EXPECT_STREQ(npy_type(DType::s8), "i1");
}

}  // namespace
}  // namespace kiln::tools
