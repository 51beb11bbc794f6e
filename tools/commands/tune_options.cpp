// The options of kiln tune, and those of its fleet.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "commands/options.h"
#include "fmt/format.h"

namespace kiln::tools {
namespace {

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

}  // namespace

// Longer than a screen, for it is a list: an option after the other.
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
    add_timed_shapes(*command, options->sizes);
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

}  // namespace kiln::tools
