// What is made of the command line's own definitions: help that fits a terminal, a man page, completion for shells.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace kiln::tools {

constexpr size_t help_columns = 100;

// Help no line of which is longer than help_columns.
class Help : public CLI::Formatter {
  public:
    std::string make_help(const CLI::App *app, std::string name, CLI::AppFormatMode mode) const override;
};

// Breaks what is longer than `columns` between words. Lines go on under the text that the line's last column has: under
// an option's description, not its name.
std::string wrapped(const std::string &text, size_t columns);

// kiln(1), in roff.
std::string man_page(const CLI::App &app, const std::string &version);

// Shells that completion() knows.
const std::vector<std::string> &completed_shells();
// A script that completes the command line; `targets` are what --target may be.
std::string completion(const CLI::App &app, const std::string &shell, const std::vector<std::string> &targets);

}  // namespace kiln::tools
