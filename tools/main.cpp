// The `kiln` command: reads the command line and calls the command it names.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <tuple>

#include "CLI/CLI.hpp"
#include "choice.h"
#include "commands.h"
#include "fmt/format.h"
#include "messages.h"
#include "pages.h"
#include "shape_option.h"
#include "share_folder.h"
#include "suggest.h"
#include "targets/target_model.h"
#include "temp_folder.h"

#ifndef KILN_VERSION
#error "the build says which version this is"
#endif

namespace kiln::tools {
namespace {

constexpr int usage_error = 2;
constexpr const char *exit_statuses = "Exit status: 0, all well; 1, something failed, and stderr says what; 2, usage.";

int processors() {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::pair<std::string, std::vector<int64_t>> parse_shape(const std::string &text) try {
    return parse_shape_option(text);
} catch (const Error &error) {
    throw CLI::ValidationError("--shape", error.what());
}

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

void add_stand_ins(CLI::App &command, bool &stand_ins) {
    command.add_flag_callback(
        "--no-stand-in", [&stand_ins] { stand_ins = false; },
        "A layer whose kernel does not compile as decided fails; else a plainer algorithm stands in, with a "
        "warning");
}

constexpr const char *network_options = "For a whole model (--network)";

CLI::Option *add_network(CLI::App &command, bool &network, const char *help) {
    return command.add_flag("--network", network, help)->group(network_options);
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
    network.stand_ins = options.stand_ins;
    network.spec_options = options.spec_options;
    return network;
}

void add_layers(CLI::App &command, std::vector<std::string> &layers) {
    command.add_option("--layer", layers, "Only this layer, by its name or its ONNX node's; may be given again")
        ->type_name("NAME")
        ->allow_extra_args(false);
}

void add_measure(CLI::App &command, MeasureOptions &options) {
    add_spec(command, options.spec, options.spec_options);
    add_target(command, options.target);
    add_toolchain(command, options.runner, options.cxx);
    add_layers(command, options.layers);
    add_decisions(command, options.decisions);
    add_stand_ins(command, options.stand_ins);
    command.add_option("--seed", options.seed, "Of the random tensors, and of the sizes that layers leave open")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command.add_option("--draws", options.draws, "Problems for each layer with open sizes")
        ->type_name("N")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    add_jobs(command, options.jobs);
}

void add_cold(CLI::App &command, bool &cold) {
    command.add_flag("--cold", cold, "Time calls that find their weights in no cache, as those of a large model do");
}

RunOptions::Engine parse_engine(const std::string &name) {
    if (name == "specialized") return RunOptions::Engine::specialized;
    if (name == "generic") return RunOptions::Engine::generic;
    throw CLI::ValidationError("--engine", fmt::format("{}: it may be specialized or generic", name));
}

// A command's options live in the closure that runs it.
using Action = std::function<int()>;

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
    add_stand_ins(*command, options->stand_ins);
    CLI::Option *explain = command->add_flag("--explain", options->explain, "Also print what kiln explain does");
    const auto network = std::make_shared<bool>(false);
    add_network(*command, *network,
                "Compile the model as a whole: <name>_run computes its outputs from its inputs. Its weights are "
                "embedded, packed unless --embed-weights=raw is said")
        ->excludes(explain)
        ->excludes(command->get_option("--layer"))
        ->excludes(command->get_option("--skip-unsupported"));
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
    add_stand_ins(*command, options->stand_ins);
    add_target(*command, options->target);
    add_toolchain(*command, options->runner, options->cxx);
    add_jobs(*command, options->jobs);
    return [options, network, is_network] {
        if (!*is_network) return run_command(*options);
        network->model = options->cases;
        network->output = options->output;
        network->decisions = options->decisions;
        network->stand_ins = options->stand_ins;
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
    command->add_flag("--all-dialects", options->all_dialects,
                      "Also resolve each layer under every dialect and profile, "
                      "and tell where they differ");
    command->add_flag("--json", options->json, "Answer in JSON");
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
    command->add_option("--json", options->json, "Write the results to this file too")->type_name("FILE");
    const auto network = std::make_shared<NetworkBenchOptions>();
    const auto is_network = std::make_shared<bool>(false);
    add_network(*command, *is_network, "Time the model as a whole, and each of its steps in it")
        ->excludes(command->get_option("--layer"))
        ->excludes(command->get_option("--cold"));
    add_inputs(*command, network->inputs, "random ones by --seed unless said");
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

// "60s", "10m", "200c"; "30c/layer"
TuneOptions::Budget parse_budget(const std::string &text) {
    TuneOptions::Budget budget;
    char *end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    std::string unit = end;
    if (const size_t slash = unit.find("/layer"); slash != std::string::npos && slash + 6 == unit.size()) {
        budget.per_layer = true;
        unit.resize(slash);
    }
    const bool whole = unit == "c" && number >= 1 && number <= 1e6 && number == std::floor(number);
    if (!whole && !((unit == "s" || unit == "m") && number > 0 && number <= 1e6))
        throw CLI::ValidationError(
            "--budget", fmt::format("{}: write seconds, minutes or a number of candidates above 0, like 60s, 10m or "
                                    "200c; with /layer behind for each layer",
                                    text));
    if (unit == "c")
        budget.candidates = static_cast<int>(number);
    else
        budget.seconds = unit == "m" ? number * 60 : number;
    return budget;
}

// "2/8"
std::pair<int, int> parse_shard(const std::string &text) {
    int shard = 0, shards = 0, read = 0;
    const bool good = std::sscanf(text.c_str(), "%d/%d%n", &shard, &shards, &read) == 2 &&
                      read == static_cast<int>(text.size()) && shard >= 1 && shard <= shards;
    if (!good) throw CLI::ValidationError("--shard", fmt::format("{}: write I/N with 1 <= I <= N, like 2/8", text));
    return {shard, shards};
}

// "500x2000"
std::pair<int, int> parse_fleet(const std::string &text) {
    int timers = 0, compilers = 0, read = 0;
    const bool good = std::sscanf(text.c_str(), "%dx%d%n", &timers, &compilers, &read) == 2 &&
                      read == static_cast<int>(text.size()) && timers >= 1 && compilers >= 1;
    if (!good) throw CLI::ValidationError("--fleet", fmt::format("{}: write TIMERSxCOMPILERS, like 500x2000", text));
    return {timers, compilers};
}

Action add_tune(CLI::App &app, CLI::App *&command) {
    command = app.add_subcommand(
        "tune", "Search algorithms and schedules by measuring; compile, verify and bench take what it decides");
    const auto options = std::make_shared<TuneOptions>();
    add_spec(*command, options->spec, options->spec_options);
    add_target(*command, options->target);
    add_toolchain(*command, options->runner, options->cxx);
    command
        ->add_option_function<std::string>(
            "--budget", [options](const std::string &text) { options->budget = parse_budget(text); },
            "What it may take: seconds, minutes or candidates, in all or for each layer")
        ->type_name("60s|10m|200c[/layer]")
        ->required();
    add_layers(*command, options->layers);
    command
        ->add_option("--decisions", options->decisions, "What is decided, a line a problem and target: builds read it")
        ->type_name("FILE")
        ->capture_default_str();
    command->add_option("--timings", options->timings, "What was measured, a line a candidate; files merge by cat")
        ->type_name("FILE")
        ->capture_default_str();
    command
        ->add_option("--predict", options->predict,
                     "Rank candidates by what llvm-mca predicts for a processor, in place of timing them")
        ->type_name("CPU");
    command
        ->add_option_function<std::string>(
            "--shard",
            [options](const std::string &text) { std::tie(options->shard, options->shards) = parse_shard(text); },
            "Only the I-th of N parts of the problems")
        ->type_name("I/N");
    command
        ->add_option("--cluster", options->cluster,
                     "Compile and time on a Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT")
        ->type_name("ADDRESS");
    command->add_option("--boards", options->boards, "Boards of the cluster, their targets and runners (TOML)")
        ->type_name("FILE");
    command
        ->add_option("--cluster-wait", options->cluster_wait,
                     "How long to wait for machines of the cluster where none is left")
        ->type_name("SECONDS")
        ->check(positive)
        ->capture_default_str();
    command
        ->add_option("--replay", options->replay,
                     "Time nothing: simulate a fleet, in virtual time, by what this timings file has")
        ->type_name("FILE");
    command
        ->add_option_function<std::string>(
            "--fleet",
            [options](const std::string &text) {
                std::tie(options->fleet_timers, options->fleet_compilers) = parse_fleet(text);
            },
            "How many timers and compilers --replay simulates; one of each unless said")
        ->type_name("TIMERSxCOMPILERS");
    command
        ->add_option("--fleet-task", options->fleet_task_seconds,
                     "How long the simulated fleet's driver takes to hand on one task")
        ->type_name("SECONDS")
        ->check(CLI::NonNegativeNumber);
    add_cold(*command, options->cold);
    command->add_flag("--resume", options->resume, "Go on: what the timings file has of this machine counts");
    command->add_option("--report", options->report, "Write a page to this file: gains, search, schedules, noise")
        ->type_name("FILE");
    command->add_option("--seed", options->seed, "Of the search and of the random tensors")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    add_jobs(*command, options->jobs);
    command
        ->add_option(
            "--time-limit", options->time_limit,
            "Longest time of the processor's for compiling a candidate, and longest for its program to say nothing")
        ->type_name("SECONDS")
        ->check(positive)
        ->capture_default_str();
    command->add_flag("--json", options->json, "Answer in JSON");
    return [options] { return tune_command(*options); };
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
    for (const auto add : {add_compile, add_run, add_explain, add_verify, add_bench, add_tune, add_targets, add_doctor,
                           add_completion, add_man}) {
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
