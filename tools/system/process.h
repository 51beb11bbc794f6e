// Starts other programs, without a shell.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tools {

// How a program ended: its exit status, or 128 plus the signal that ended it, as shells count.
struct ProcessResult {
    int status = 0;
    std::string output;  // where it was asked for
};

// The program's name is looked up in PATH; stdin is empty. Each throws Error where the program cannot be started.
//
// Its output goes where ours does.
int run_process(const std::vector<std::string> &command);
// Calls on_line for each line of its stdout as it comes, without the line's end. Its stderr goes where ours does.
int run_process(const std::vector<std::string> &command, const std::function<void(const std::string &line)> &on_line);
// The same, but it is killed once it has said nothing for `silence` seconds: then there is no status.
std::optional<int> run_process(const std::vector<std::string> &command, double silence,
                               const std::function<void(const std::string &line)> &on_line);
// Collects its stdout and stderr.
ProcessResult capture_process(const std::vector<std::string> &command);

// "a b c" as its words.
std::vector<std::string> split_words(const std::string &text);

}  // namespace kiln::tools
