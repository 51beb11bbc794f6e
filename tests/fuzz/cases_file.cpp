// Any text, read as one line of a cases file: it is a case, or has a code and a message. There are files for its
// inputs: x.npy, w.npy and b.npy of a small convolution, the same in 8 bits with a scale and zero points, and an
// offset.
#include <vector>

#include "fuzz.h"
#include "layers/cases.h"
#include "layers/npy.h"
#include "system/temp_folder.h"

namespace {

struct File {
    const char *name, *type;
    std::vector<int64_t> shape;
};

// The files, made once and kept until the program ends.
const std::string &folder() {
    static const kiln::tools::TempFolder files;
    static const bool written = [] {
        const File all[] = {
            {"x", "f4", {1, 4, 6, 6}},  {"w", "f4", {4, 4, 3, 3}}, {"b", "f4", {4}}, {"xq", "u1", {1, 4, 6, 6}},
            {"wq", "i1", {4, 4, 3, 3}}, {"bq", "i4", {4}},         {"s", "f4", {}},  {"z", "u1", {}},
            {"wz", "i1", {4}},          {"o", "f4", {1, 72, 4, 4}}};
        const std::vector<float> ones(4096, 1.0f);
        for (const File &file : all)
            kiln::tools::write_npy(files.path() + "/" + file.name + ".npy", file.type, file.shape, ones.data());
        return true;
    }();
    static_cast<void>(written);
    return files.path();
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string text(kiln::fuzz::text_of(data, size));
    const kiln::tools::CaseLine line = kiln::tools::read_case(text, 1, folder());
    FUZZ_CHECK(line.value || (line.code != kiln::StatusCode::ok && !line.message.empty()), text);
    if (line.value) try {
            kiln::fuzz::check_problem(kiln::tools::resolve(line.value->layer).problem);
        } catch (const kiln::tools::Error &error) {
            FUZZ_CHECK(*error.what() != '\0', text);
        }
    return 0;
}
