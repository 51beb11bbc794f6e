// The `kiln` command: reads the command line and calls the command it names.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>

#include "CLI/CLI.hpp"
#include "commands/commands.h"
#include "commands/options.h"
#include "commands/pages.h"
#include "fmt/format.h"
#include "layers/suggest.h"
#include "library/choice.h"
#include "system/messages.h"
#include "system/share_folder.h"
#include "system/temp_folder.h"
#include "targets/target_model.h"

#ifndef KILN_VERSION
#error "the build says which version this is"
#endif

namespace kiln::tools {
namespace {

constexpr int usage_error = 2;
constexpr const char *exit_statuses = "Exit status: 0, all well; 1, something failed, and stderr says what; 2, usage.";

constexpr const char *network_options = "For a whole model (--network)";

CLI::Option *add_network(CLI::App &command, bool &network, const char *help) {
    return command.add_flag("--network", network, help)->group(network_options);
}

void add_output_names(CLI::App &command, SpecOptions &options) {
    command
        .add_option("--output-name", options.output_names,
                    "A value of the model that is an output in place of the model's own, which is needed where "
                    "shapes behind it depend on numbers; may be given again")
        ->type_name("NAME")
        ->allow_extra_args(false)
        ->group(network_options);
}

void add_sizes(CLI::App &command, SpecOptions &options) {
    command
        .add_option("--size", options.sizes,
                    "A dimension that the model leaves open, by its name or as INPUT.AXIS, and its value; several "
                    "values make a network of each, in one library whose function takes the size as an argument; may "
                    "be given again")
        ->type_name("NAME=160,320")
        ->allow_extra_args(false)
        ->needs(command.get_option("--network"))
        ->group(network_options);
}

void add_inputs(CLI::App &command, std::string &inputs, const char *otherwise) {
    command.add_option("--inputs", inputs, fmt::format("The model's inputs, its keys are their names; {}", otherwise))
        ->type_name("IN.npz")
        ->group(network_options);
}

void add_threads(CLI::App &command, int &threads, const char *help) {
    command.add_option("--threads", threads, help)->type_name("N")->check(CLI::Range(1, 1024))->capture_default_str();
}

// What the options that layers and networks share say of a network.
NetworkOptions as_network(const MeasureOptions &options, NetworkOptions network) {
    network.model = options.spec;
    network.target = options.target;
    network.runner = options.runner;
    network.cxx = options.cxx;
    network.decisions = options.decisions;
    network.jobs = options.jobs;
    network.seed = options.seed;
    network.fallbacks = options.fallbacks;
    network.spec_options = options.spec_options;
    return network;
}

void add_measure(CLI::App &command, MeasureOptions &options) {
    add_spec(command, options.spec, options.spec_options);
    add_target(command, options.target);
    add_toolchain(command, options.runner, options.cxx);
    add_layers(command, options.layers);
    add_decisions(command, options.decisions);
    add_goals(command, options.spec_options);
    add_fallbacks(command, options.fallbacks);
    command.add_option("--seed", options.seed, "Of the random tensors, and of the sizes that layers leave open")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command.add_option("--draws", options.draws, "Problems for each layer with open sizes")
        ->type_name("N")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    add_timed_shapes(command, options.sizes);
    add_jobs(command, options.jobs);
}

RunOptions::Engine parse_engine(const std::string &name) {
    if (name == "specialized") return RunOptions::Engine::specialized;
    if (name == "generic") return RunOptions::Engine::generic;
    throw CLI::ValidationError("--engine", fmt::format("{}: it may be specialized or generic", name));
}

// Longer than a screen, for it is a list: an option after the other.
Action add_compile(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand("compile", "Compile a SPEC's layers to a static library, a header and a manifest");
    const auto options = std::make_shared<CompileOptions>();
    add_spec(*command, options->spec, options->spec_options);
    command->add_option("-o,--output", options->output, "Folder for lib<name>.a, <name>.h and <name>.json")
        ->type_name("DIR")
        ->required();
    command
        ->add_option(
            "--target", options->targets,
            "Target: a short name (see kiln targets) or a Halide target string; may be given again; those of the "
            "layers file, else this machine, unless said")
        ->type_name("T")
        ->allow_extra_args(false);
    command->add_option("--name", options->name, "Name of the library; the layers file's, else SPEC's own, unless said")
        ->type_name("N")
        ->check([](const std::string &name) {
            return is_identifier(name) ? "" : fmt::format("{} is no C identifier", name);
        });
    add_decisions(*command, options->decisions);
    add_goals(*command, options->spec_options);
    add_jobs(*command, options->jobs);
    // A flag: what stands behind it is the next argument.
    const auto embedding = std::make_shared<std::string>();
    command
        ->add_flag("--embed-weights{packed}", *embedding,
                   "Put the weights and the bias into the library, packed; --embed-weights=raw: as the model has them, "
                   "which may be several times smaller, to be packed into memory when the program starts")
        ->check([](const std::string &how) {
            return how == "packed" || how == "raw" ? "" : fmt::format("{}: it may be packed or raw", how);
        });
    command
        ->add_option(
            "--save-weights", options->save_weights,
            "Also write the layers' own weights there, for the --weights-dir of a program that verifies them; with "
            "--network random inputs and the outputs that a reference makes of them")
        ->type_name("DIR");
    add_layers(*command, options->layers);
    command->add_flag(
        "--skip-unsupported", options->skip_unsupported,
        "Leave out layers that Kiln cannot take, or a model's that it cannot make sense of, and tell which; "
        "else they are failures, and the others are compiled all the same");
    command
        ->add_option("--time-limit", options->time_limit,
                     "Longest time of the processor's that one kernel may take to compile")
        ->type_name("SECONDS")
        ->check(positive)
        ->capture_default_str();
    add_fallbacks(*command, options->fallbacks);
    CLI::Option *explain = command->add_flag("--explain", options->explain, "Also print what kiln explain does");
    const auto network = std::make_shared<bool>(false);
    add_network(*command, *network,
                "Compile the model as a whole: <name>_run computes its outputs from its inputs. Its weights are "
                "embedded, packed unless --embed-weights=raw is said")
        ->excludes(explain)
        ->excludes(command->get_option("--layer"))
        ->excludes(command->get_option("--skip-unsupported"));
    add_output_names(*command, options->spec_options);
    add_sizes(*command, options->spec_options);
    command
        ->add_flag(
            "--callbacks", options->spec_options.callbacks,
            "Leave nodes to the program that nothing can be generated for, even where that is for want of a Python "
            "package: a function pointer each")
        ->group(network_options);
    command
        ->add_flag(
            "--tail-source", options->tail_source,
            "Write the C of nodes that Kiln has no kernel for to DIR/<name>_tail.c, to be compiled with the program, "
            "in place of compiling it")
        ->group(network_options);
    command
        ->add_flag(
            "--traced", options->traced,
            "Add <name>_run_traced, which runs its i-th step kiln_network_repeats(i) times, and calls "
            "kiln_network_step(i) before each of them and, with how many steps there are, behind the last: the program "
            "has both functions, which take an int32_t and return one, the second kiln_ok")
        ->group(network_options);
    command->add_option("--cxx", options->cxx, "Compiler for that C; $CXX, or the target's usual one, unless said")
        ->type_name("CXX")
        ->group(network_options);
    return [options, embedding, network] {
        options->embed_weights = *embedding == "raw"      ? Embedding::raw
                                 : *embedding == "packed" ? Embedding::packed
                                                          : Embedding::none;
        return *network ? compile_network_command(*options) : compile_command(*options);
    };
}

Action add_run(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand(
        "run", "Compute the cases of a JSON-lines file, or a model; answers go to stdout, one line a case");
    const auto options = std::make_shared<RunOptions>();
    const auto network = std::make_shared<NetworkRunOptions>();
    const auto is_network = std::make_shared<bool>(false);
    command->add_option("CASES.jsonl", options->cases, "Cases, one JSON object a line; with --network an ONNX model")
        ->type_name(" ")
        ->required();
    add_network(
        *command, *is_network,
        "Run the model in place of cases: each output goes to DIR/<its name>.npy, and results.jsonl lists them");
    add_inputs(*command, network->inputs, "random ones by --seed unless said");
    add_output_names(*command, network->spec_options);
    add_sizes(*command, network->spec_options);
    add_shapes(*command, network->spec_options);
    command->get_option("--shape")->group(network_options);
    command->add_option("--seed", network->seed, "Of random inputs")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str()
        ->group(network_options);
    add_threads(*command, network->threads, "Threads that share the work");
    command->get_option("--threads")->group(network_options);
    command->add_option("-o,--output", options->output, "Folder for outputs and results.jsonl")
        ->type_name("DIR")
        ->required();
    command
        ->add_option_function<std::string>(
            "--engine", [options](const std::string &name) { options->engine = parse_engine(name); },
            "Kernels made for each case, or one library for all of them")
        ->type_name("specialized|generic")
        ->default_str("specialized");
    add_decisions(*command, options->decisions);
    add_fallbacks(*command, options->fallbacks);
    add_target(*command, options->target);
    add_toolchain(*command, options->runner, options->cxx);
    add_jobs(*command, options->jobs);
    return [options, network, is_network] {
        if (!*is_network) return run_command(*options);
        network->model = options->cases;
        network->output = options->output;
        network->decisions = options->decisions;
        network->fallbacks = options->fallbacks;
        network->target = options->target;
        network->runner = options->runner;
        network->cxx = options->cxx;
        network->jobs = options->jobs;
        return run_network_command(*network);
    };
}

Action add_explain(CLI::App &app, CLI::App *&command) {
    command =
        app.add_subcommand("explain", "Tell what a SPEC's layers mean: shapes, pads, problems and kernel choices");
    const auto options = std::make_shared<ExplainOptions>();
    add_spec(*command, options->spec, options->spec_options);
    add_layers(*command, options->layers);
    add_target(*command, options->target);
    add_decisions(*command, options->decisions);
    add_goals(*command, options->spec_options);
    add_jobs(*command, options->jobs);
    command->add_flag("--all-dialects", options->all_dialects,
                      "Also resolve each layer under every dialect and profile, "
                      "and tell where they differ");
    command->add_flag("--json", options->json, "Answer in JSON");
    command->add_flag("--cold", options->cold,
                      "Tell the kernels that a network would take, whose calls find their weights in no cache");
    return [options] { return explain_command(*options, describe_choice); };
}

Action add_verify(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand("verify",
                                 "Check every kernel against the float64 reference, on this machine or by --runner");
    const auto options = std::make_shared<VerifyOptions>();
    add_measure(*command, *options);
    command->add_flag("--json", options->json, "Answer in JSON");
    const auto network = std::make_shared<NetworkVerifyOptions>();
    const auto is_network = std::make_shared<bool>(false);
    add_network(
        *command, *is_network,
        "Check the model as a whole: every output beside onnxruntime's or, where that is not installed, those of "
        "onnx's reference evaluator; on a miss the first tensor that differs is told")
        ->excludes(command->get_option("--layer"));
    add_inputs(*command, network->inputs, "random ones by --seed unless said");
    add_output_names(*command, options->spec_options);
    add_sizes(*command, options->spec_options);
    command
        ->add_option("--reference", network->reference,
                     "Compare with this model, which has the same inputs and outputs, in place of the same one")
        ->type_name("MODEL")
        ->group(network_options);
    command
        ->add_option(
            "--tolerance", network->tolerance,
            "What an output may differ by, as a part of its largest value; 1e-4 unless said, 1e-2 where tensors "
            "are float16, 0.05 where they are of 8 bits")
        ->type_name("T")
        ->check(positive)
        ->group(network_options);
    return [options, network, is_network] {
        if (!*is_network) return verify_command(*options);
        static_cast<NetworkOptions &>(*network) = as_network(*options, *network);
        network->json = options->json;
        return verify_network_command(*network);
    };
}

Action add_bench(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand("bench", "Time every kernel: ms, GFLOP/s, share of the measured peak");
    const auto options = std::make_shared<BenchOptions>();
    add_measure(*command, *options);
    command->add_option("--threads", options->threads, "Threads that share each call's work; the peak is theirs too")
        ->type_name("N")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    add_cold(*command, options->cold);
    command
        ->add_option(
            "--workers", options->workers,
            "Tell how evenly so many workers would share the work, here or not: each piece is timed by itself, and "
            "the workers are simulated")
        ->type_name("N,N,...")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024));
    command->add_option("--json", options->json, "Write the results to this file too")->type_name("FILE");
    const auto network = std::make_shared<NetworkBenchOptions>();
    const auto is_network = std::make_shared<bool>(false);
    add_network(*command, *is_network, "Time the model as a whole, and each of its steps in it")
        ->excludes(command->get_option("--layer"))
        ->excludes(command->get_option("--cold"))
        ->excludes(command->get_option("--workers"));
    add_inputs(*command, network->inputs, "random ones by --seed unless said");
    add_output_names(*command, options->spec_options);
    add_sizes(*command, options->spec_options);
    command->add_option("--report", network->report, "Write a page to this file: where time goes, node by node")
        ->type_name("FILE")
        ->group(network_options);
    command->add_option("--seconds", network->seconds, "To take for timing")
        ->type_name("SECONDS")
        ->check(positive)
        ->capture_default_str()
        ->group(network_options);
    return [options, network, is_network] {
        if (!*is_network) return bench_command(*options);
        static_cast<NetworkOptions &>(*network) = as_network(*options, *network);
        network->threads = options->threads;
        network->json = options->json;
        return bench_network_command(*network);
    };
}

Action add_targets(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand("targets", "List the targets by their short names");
    const auto options = std::make_shared<TargetsOptions>();
    command->add_flag("--json", options->json, "Answer in JSON");
    return [options] { return targets_command(*options); };
}

Action add_doctor(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand("doctor", "Tell what is there of what kiln needs, what is missing, and how to get it");
    const auto options = std::make_shared<DoctorOptions>();
    command->add_flag("--json", options->json, "Answer in JSON");
    return [options] { return doctor_command(*options); };
}

// "48K,1M,32M"
std::vector<int64_t> parse_caches(const std::string &text) {
    std::vector<int64_t> result;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t comma = std::min(text.find(',', begin), text.size());
        const std::string size = text.substr(begin, comma - begin);
        long long number = 0;
        char unit = 0, more = 0;
        const int read = std::sscanf(size.c_str(), "%lld%c%c", &number, &unit, &more);
        if (read != 2 || (unit != 'K' && unit != 'M') || number < 1 || number > 1 << 20 || result.size() == 3)
            throw CLI::ValidationError(
                "--caches", fmt::format("{}: write one to three sizes, the nearest first, like 48K,1M,32M", text));
        result.push_back(static_cast<int64_t>(number) << (unit == 'K' ? 10 : 20));
        begin = comma + 1;
    }
    return result;
}

Action add_calibrate(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand(
        "calibrate", "Measure what estimates need to know of this processor: rates, latencies, caches; half a minute");
    const auto options = std::make_shared<CalibrateOptions>();
    add_target(*command, options->target);
    add_toolchain(*command, options->runner, options->cxx);
    CLI::Option *caches = command->add_option_function<std::string>(
        "--caches", [options](const std::string &text) { options->caches = parse_caches(text); },
        "The sizes of its caches, the nearest first, in place of those that the system tells");
    caches->type_name("48K,1M,32M");
    command
        ->add_option(
            "--predict", options->predict,
            "Put the same loops through llvm-mca for a processor, in place of running them; it knows no caches")
        ->type_name("CPU")
        ->excludes(caches);
    add_jobs(*command, options->jobs);
    command->add_flag("--json", options->json, "Answer in JSON");
    return [options] { return calibrate_command(*options); };
}

Action add_completion(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand("completion", "Print a script that completes kiln's command lines in a shell");
    const auto shell = std::make_shared<std::string>();
    command->add_option("SHELL", *shell, "bash, zsh or fish")
        ->type_name(" ")
        ->required()
        ->check(CLI::IsMember(completed_shells()));
    return [shell, &app] {
        std::vector<std::string> targets;
        for (const TargetModel &target : target_models()) targets.emplace_back(target.name);
        fmt::print("{}", completion(app, *shell, targets));
        return 0;
    };
}

Action add_man(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand("man", "Print the manual, kiln(1), for `man -l -`");
    return [&app] {
        fmt::print("{}", man_page(app, KILN_VERSION));
        return 0;
    };
}

// Where find_package(Kiln) finds this installation: a CMAKE_PREFIX_PATH or Kiln_DIR.
std::string cmake_folder() {
    const std::filesystem::path folder = (share_folder() / "../../lib/cmake/Kiln").lexically_normal();
    std::error_code error;
    if (!std::filesystem::exists(folder / "KilnConfig.cmake", error)) {
        throw Error(fmt::format("there is no {}: this kiln is not installed with its CMake package", folder.string()));
    }
    return folder.string();
}

using Commands = std::vector<std::pair<CLI::App *, Action>>;

// Says so if `name` stands where a command should and is none; "" otherwise. CLI11 would only say that one is missing.
std::string unknown_command(const Commands &commands, const std::string &name) {
    std::vector<std::string> names;
    for (const auto &[command, action] : commands) names.push_back(command->get_name());
    if (name.empty() || name[0] == '-' || std::find(names.begin(), names.end(), name) != names.end()) return "";
    return fmt::format("unknown command {}: did you mean {}?", name, nearest_name(name, names));
}

int run(int argc, char **argv) {
    CLI::App app("Kiln compiles convolutions ahead of time: layers in, a static library and a header out.", "kiln");
    app.formatter(std::make_shared<Help>());
    app.set_version_flag("--version", "kiln " KILN_VERSION);
    app.add_flag_callback(
        "--cmake-dir", [] { throw CLI::CallForVersion(cmake_folder(), 0); },
        "Print the folder by which CMake finds this installation, for CMAKE_PREFIX_PATH");
    app.require_subcommand(1);
    app.footer(fmt::format("kiln COMMAND --help tells a command's options.\n{}", exit_statuses));
    Commands commands;
    for (const auto add : {add_compile, add_run, add_explain, add_verify, add_bench, add_tune, add_calibrate,
                           add_targets, add_doctor, add_completion, add_man}) {
        CLI::App *command = nullptr;
        Action action = add(app, command);
        command->footer(exit_statuses);
        commands.emplace_back(command, std::move(action));
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success &success) {  // --help, --version
        return app.exit(success);
    } catch (const CLI::ParseError &error) {
        const std::string unknown = argc > 1 ? unknown_command(commands, argv[1]) : "";
        say_error(unknown.empty() ? error.what() : unknown);
        fmt::print(stderr, "kiln --help and kiln COMMAND --help tell what there is.\n");
        return usage_error;
    }
    for (const auto &[command, action] : commands)
        if (command->parsed()) return action();
    return usage_error;
}

}  // namespace
}  // namespace kiln::tools

int main(int argc, char **argv) {
    kiln::tools::clean_up_on_signals();
    try {
        if (argc == 3 && std::string_view(argv[1]) == "candidate") return kiln::tools::candidate_command(argv[2]);
        const int status = kiln::tools::run(argc, argv);
        if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
        kiln::tools::say_error("standard output cannot be written");
    } catch (const std::bad_alloc &) {
        kiln::tools::say_error("out of memory");
    } catch (const std::exception &error) {  // tools::Error, and what the standard library throws
        kiln::tools::say_error(error.what());
    }
    return 1;
}
