// Any text, read as a layers file: it is refused by an Error with words in it, or is layers that resolve or say why
// not.
#include "layers/layers_file.h"

#include "fuzz.h"

namespace {

using kiln::tools::Error;
using kiln::tools::Spec;

void check_error(const Error &error, std::string_view text) {
    FUZZ_CHECK(*error.what() != '\0', text);
    FUZZ_CHECK(error.code == kiln::StatusCode::invalid_argument || error.code == kiln::StatusCode::unsupported, text);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string text(kiln::fuzz::text_of(data, size));
    Spec spec;
    try {
        spec = kiln::tools::parse_layers_file(text, "/nowhere/fuzz.toml");
    } catch (const Error &error) {
        check_error(error, text);
        return 0;
    }
    for (const Spec::Failure &failure : spec.failures) FUZZ_CHECK(!failure.message.empty(), text);
    for (const kiln::tools::LayerSpec &layer : spec.layers) try {
            FUZZ_CHECK(kiln::tools::is_identifier(layer.name), text);
            kiln::fuzz::check_problem(kiln::tools::resolve(layer).problem);
        } catch (const Error &error) {
            check_error(error, text);
        }
    return 0;
}
