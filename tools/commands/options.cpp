#include "commands/options.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>

#include "fmt/format.h"
#include "layers/shape_option.h"
#include "system/messages.h"

namespace kiln::tools {
namespace {

int processors() {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::pair<std::string, std::vector<int64_t>> parse_shape(const std::string &text) try {
    return parse_shape_option(text);
} catch (const Error &error) {
    throw CLI::ValidationError("--shape", error.what());
}

TimedShapes::value_type parse_sizes(const std::string &text) try {
    return parse_timed_shapes(text);
} catch (const Error &error) {
    throw CLI::ValidationError("--sizes", error.what());
}

}  // namespace

std::string positive(const std::string &text) {
    char *end = nullptr;
    const bool good = std::strtod(text.c_str(), &end) > 0 && *end == '\0';
    return good ? "" : fmt::format("{}: a positive number is needed", text);
}

void add_shapes(CLI::App &command, SpecOptions &options) {
    command
        .add_option_function<std::vector<std::string>>(
            "--shape",
            [&options](const std::vector<std::string> &texts) {
                for (const std::string &text : texts) options.shapes.push_back(parse_shape(text));
            },
            "Shape of a model's input that the model leaves open, ? for a size that is known when it runs; may be "
            "given again")
        ->type_name("INPUT=1x3x224x224")
        ->allow_extra_args(false);
}

void add_spec(CLI::App &command, std::string &spec, SpecOptions &options) {
    command.add_option("SPEC", spec, "Layers file (.toml) or ONNX model (.onnx)")->type_name(" ")->required();
    add_shapes(command, options);
}

void add_goals(CLI::App &command, SpecOptions &options) {
    command
        .add_option_function<std::string>(
            "--optimize",
            [&options](const std::string &goal) { options.optimize = goal == "size" ? Goal::size : Goal::speed; },
            "What kernels are chosen for, of the layers that do not say: speed, or size, the fewest bytes of packed "
            "weights and code")
        ->type_name("speed|size")
        ->default_str("speed")
        ->check([](const std::string &goal) {
            return goal == "speed" || goal == "size" ? "" : fmt::format("{}: it may be speed or size", goal);
        });
    static const std::map<std::string, Accuracy> accuracies = {
        {"normal", Accuracy::normal}, {"strict", Accuracy::strict}, {"fast", Accuracy::fast}};
    command
        .add_option_function<std::string>(
            "--accuracy", [&options](const std::string &word) { options.accuracy = accuracies.at(word); },
            "How kernels may round, of the layers that do not say: strict keeps to plain sums of products, fast lets "
            "products of float16 be summed in float16")
        ->type_name("normal|strict|fast")
        ->default_str("normal")
        ->check([](const std::string &word) {
            return accuracies.count(word) ? "" : fmt::format("{}: it may be normal, strict or fast", word);
        });
}

void add_jobs(CLI::App &command, int &jobs) {
    jobs = processors();
    command.add_option("-j,--jobs", jobs, "Kernels compiled at once; this machine's processors unless said")
        ->type_name("J")
        ->check(positive)
        ->capture_default_str();
}

void add_target(CLI::App &command, std::string &target) {
    command
        .add_option("--target", target,
                    "Target: a short name (see kiln targets) or a Halide target string; this machine unless said")
        ->type_name("T");
}

void add_toolchain(CLI::App &command, std::string &runner, std::string &cxx) {
    command.add_option("--runner", runner, "Command that starts programs of the target, an emulator for example")
        ->type_name("CMD");
    command.add_option("--cxx", cxx, "C++ compiler for the target; $CXX, or the target's usual one, unless said")
        ->type_name("CXX");
}

void add_decisions(CLI::App &command, std::string &decisions) {
    command.add_option("--decisions", decisions, "Algorithms and schedules to use, as the tuner writes them")
        ->type_name("FILE");
}

void add_fallbacks(CLI::App &command, bool &fallbacks) {
    command.add_flag_callback(
        "--no-fallback", [&fallbacks] { fallbacks = false; },
        "A layer whose kernel does not compile as decided fails; else a plainer algorithm is taken, with a warning");
    command
        .add_flag_callback("--no-stand-in",
                           [&fallbacks] {
                               say_warning("--no-stand-in is now called --no-fallback");
                               fallbacks = false;
                           })
        ->group("");  // of no help or manual
}

void add_layers(CLI::App &command, std::vector<std::string> &layers) {
    command.add_option("--layer", layers, "Only this layer, by its name or its ONNX node's; may be given again")
        ->type_name("NAME")
        ->allow_extra_args(false);
}

void add_timed_shapes(CLI::App &command, TimedShapes &shapes) {
    command
        .add_option_function<std::vector<std::string>>(
            "--sizes",
            [&shapes](const std::vector<std::string> &texts) {
                for (const std::string &text : texts) shapes.push_back(parse_sizes(text));
            },
            "Sizes that what is left open is timed or checked at: a model's inputs, or a layer's x, besides the layers "
            "file's own sizes; may be given again")
        ->type_name("NAME=1x3x224x224[,NAME=...]")
        ->allow_extra_args(false);
}

void add_cold(CLI::App &command, bool &cold) {
    command.add_flag("--cold", cold, "Time calls that find their weights in no cache, as those of a large model do");
}

}  // namespace kiln::tools
