#include "lowering/false_assertions.h"

#include <iostream>
#include <string>
#include <string_view>

namespace kiln {
namespace {

// The last that this thread was warned of, on one line; empty if it was of none.
thread_local std::string false_assertion;

class Reporter final : public Halide::CompileTimeErrorReporter {
  public:
    void warning(const char *message) override {
        constexpr std::string_view begin = "guaranteed to fail an assertion";
        const std::string_view said = message;
        if (said.find(begin) == std::string_view::npos) {
            std::cerr << message;
            return;
        }
        const size_t line = said.find('\n');
        false_assertion = said.substr(line == std::string_view::npos ? 0 : line + 1);
        false_assertion.erase(false_assertion.find_last_not_of('\n') + 1);
    }
    [[noreturn]] void error(const char *message) override { throw Halide::CompileError(message); }
};

}  // namespace

Halide::Module without_false_assertions(const std::function<Halide::Module()> &lower) {
    static Reporter reporter;
    static const bool reports = [] {
        Halide::set_custom_compile_time_error_reporter(&reporter);
        return true;
    }();
    static_cast<void>(reports);
    false_assertion.clear();
    const Halide::Module module = lower();
    if (!false_assertion.empty()) {
        throw Halide::InternalError("an assertion never holds, by which guards are lost: " + false_assertion);
    }
    return module;
}

}  // namespace kiln
