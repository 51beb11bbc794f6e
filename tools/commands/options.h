// Options that several commands have, as CLI11 takes them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "commands/commands.h"

namespace kiln::tools {

// A command's options live in the closure that runs it.
using Action = std::function<int()>;

// "" for a number above 0, else what is wrong.
std::string positive(const std::string &text);

void add_shapes(CLI::App &command, SpecOptions &options);
void add_spec(CLI::App &command, std::string &spec, SpecOptions &options);
// --optimize and --accuracy
void add_goals(CLI::App &command, SpecOptions &options);
void add_jobs(CLI::App &command, int &jobs);
void add_target(CLI::App &command, std::string &target);
void add_toolchain(CLI::App &command, std::string &runner, std::string &cxx);
void add_decisions(CLI::App &command, std::string &decisions);
void add_fallbacks(CLI::App &command, bool &fallbacks);
void add_layers(CLI::App &command, std::vector<std::string> &layers);
// --sizes
void add_timed_shapes(CLI::App &command, TimedShapes &shapes);
void add_cold(CLI::App &command, bool &cold);

// The command itself: its options and what runs it.
Action add_tune(CLI::App &app, CLI::App *&command);

}  // namespace kiln::tools
