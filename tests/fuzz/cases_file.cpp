// Any text, read as one line of a cases file: it is a case, or has a code and a message. Its inputs may be the files
// x.npy, w.npy, b.npy of a 1 x 4 x 6 x 6 input and 4 x 4 x 3 x 3 weights.
#include "cases.h"
#include "fuzz.h"
#include "npy.h"
#include "temp_folder.h"

namespace {

// The files, made once and kept until the program ends.
const std::string &folder() {
    static const kiln::tools::TempFolder files;
    static const bool written = [] {
        const float zeros[1 * 4 * 6 * 6] = {};
        kiln::tools::write_npy(files.path() + "/x.npy", "f4", {1, 4, 6, 6}, zeros);
        kiln::tools::write_npy(files.path() + "/w.npy", "f4", {4, 4, 3, 3}, zeros);
        kiln::tools::write_npy(files.path() + "/b.npy", "f4", {4}, zeros);
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
