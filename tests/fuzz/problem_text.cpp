// Any text, read as a problem's: what parses is valid and canonical, and prints to the same text.
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string_view text = kiln::fuzz::text_of(data, size);
    kiln::Problem problem;
    const kiln::Status status = kiln::parse(text, &problem);
    if (!status.ok()) {
        FUZZ_CHECK(status.code() == kiln::StatusCode::invalid_argument && *status.message() != '\0', text);
        return 0;
    }
    FUZZ_CHECK(std::string_view(kiln::print(problem)) == text, text);
    kiln::fuzz::check_problem(problem);
    return 0;
}
