#include "commands/pages.h"

#include <algorithm>
#include <functional>
#include <sstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"

namespace kiln::tools {
namespace {

using Options = std::vector<const CLI::Option *>;

std::vector<const CLI::App *> commands_of(const CLI::App &app) {
    return app.get_subcommands([](const CLI::App *command) { return !command->get_name().empty(); });
}

// Those that have a name to type, in the order of their definition.
Options named_options(const CLI::App &app) {
    return app.get_options(
        [](const CLI::Option *option) { return option->nonpositional() && !option->get_group().empty(); });
}

Options positionals(const CLI::App &app) {
    return app.get_options([](const CLI::Option *option) { return option->get_positional(); });
}

// "--output" and "-o", dashes included.
std::vector<std::string> words_of(const CLI::Option &option) {
    std::vector<std::string> words;
    for (const std::string &name : option.get_snames()) words.push_back("-" + name);
    for (const std::string &name : option.get_lnames()) words.push_back("--" + name);
    return words;
}

bool takes_value(const CLI::Option &option) {
    return option.get_items_expected_max() > 0 && option.get_type_size_max() > 0;
}

// What an option's value is, as far as it can be completed.
enum class Kind { flag, text, file, folder, target, choice };

Kind kind_of(const CLI::Option &option) {
    if (!takes_value(option)) return Kind::flag;
    const std::string type = option.get_type_name();
    if (option.check_lname("target")) return Kind::target;
    if (type == "FILE") return Kind::file;
    if (type == "DIR") return Kind::folder;
    if (type.find('|') != std::string::npos && type.find_first_of("0123456789[") == std::string::npos)
        return Kind::choice;
    return Kind::text;
}

std::vector<std::string> choices_of(const CLI::Option &option, const std::vector<std::string> &targets) {
    if (kind_of(option) == Kind::target) return targets;
    std::vector<std::string> words;
    std::istringstream text(option.get_type_name());
    for (std::string word; std::getline(text, word, '|');) words.push_back(word);
    return words;
}

// `text` with a backslash in front of each of `characters`.
std::string escaped(const std::string &text, std::string_view characters) {
    std::string result;
    for (const char c : text) {
        if (characters.find(c) != std::string_view::npos) result += '\\';
        result += c;
    }
    return result;
}

// In single quotes of a shell.
std::string quoted(const std::string &text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

// ---- Help ----

// Where a line that is broken goes on: behind its last gap of two blanks or more that lies in the first half.
size_t indentation(const std::string &line, size_t columns) {
    const size_t front = std::min(line.find_first_not_of(' '), line.size());
    size_t indent = front;
    for (size_t at = line.find("  ", front); at != std::string::npos && at < columns / 2; at = line.find("  ", at)) {
        at = line.find_first_not_of(' ', at);
        if (at == std::string::npos || at >= columns * 2 / 3) break;
        indent = at;
    }
    return indent;
}

// ---- Man page ----

std::string roff(const std::string &text) {
    std::string result = escaped(text, "\\-");
    for (size_t at = 0; (at = result.find('\n', at)) != std::string::npos; ++at) result.replace(at, 1, "\n.br\n");
    return result.empty() || (result[0] != '.' && result[0] != '\'') ? result : "\\&" + result;
}

std::string roff_option(const CLI::Option &option) {
    std::vector<std::string> names;
    for (const std::string &word : words_of(option)) names.push_back(fmt::format("\\fB{}\\fR", roff(word)));
    std::string head = fmt::format("{}", fmt::join(names, ", "));
    if (names.empty()) head = fmt::format("\\fI{}\\fR", roff(option.get_name(true)));
    if (takes_value(option) && !names.empty()) head += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
    std::string text = option.get_description();
    if (!option.get_default_str().empty()) text += fmt::format(" (default: {})", option.get_default_str());
    if (option.get_required()) text += " (required)";
    return fmt::format(".TP\n{}\n{}\n", head, roff(text));
}

// ---- Completion ----

std::string bash(const CLI::App &app, const std::vector<std::string> &targets) {
    std::vector<std::string> names = {"--help", "--version", "--cmake-dir"};
    std::string values, options;
    for (const CLI::App *command : commands_of(app)) {
        names.push_back(command->get_name());
        std::vector<std::string> all;
        for (const CLI::Option *option : named_options(*command)) {
            const std::vector<std::string> words = words_of(*option);
            all.insert(all.end(), words.begin(), words.end());
            const Kind kind = kind_of(*option);
            if (kind == Kind::flag) continue;
            std::vector<std::string> keys;
            for (const std::string &word : words) keys.push_back(command->get_name() + ":" + word);
            const std::string answer =
                kind == Kind::file     ? "COMPREPLY=($(compgen -f -- \"$word\"))"
                : kind == Kind::folder ? "COMPREPLY=($(compgen -d -- \"$word\"))"
                : kind == Kind::text
                    ? "COMPREPLY=()"
                    : fmt::format("COMPREPLY=($(compgen -W {} -- \"$word\"))",
                                  quoted(fmt::format("{}", fmt::join(choices_of(*option, targets), " "))));
            values += fmt::format("        {}) {}; return ;;\n", fmt::join(keys, "|"), answer);
        }
        options += fmt::format("        {}) options={} ;;\n", command->get_name(),
                               quoted(fmt::format("{}", fmt::join(all, " "))));
    }
    return fmt::format(
        "# Completion of kiln for bash: source it, or put it into share/bash-completion/completions/kiln.\n"
        "_kiln() {{\n"
        "    local word=${{COMP_WORDS[COMP_CWORD]}} options=\n"
        "    if ((COMP_CWORD == 1)); then\n"
        "        COMPREPLY=($(compgen -W {} -- \"$word\"))\n"
        "        return\n"
        "    fi\n"
        "    case ${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD-1]}} in\n{}    esac\n"
        "    case ${{COMP_WORDS[1]}} in\n{}    esac\n"
        "    if [[ $word == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
        "    else\n"
        "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
        "    fi\n"
        "}}\n"
        "complete -o filenames -F _kiln kiln\n",
        quoted(fmt::format("{}", fmt::join(names, " "))), values, options);
}

std::string zsh_option(const CLI::Option &option, const std::vector<std::string> &targets) {
    const std::vector<std::string> words = words_of(option);
    const std::string text = escaped(option.get_description(), "[]:");
    const Kind kind = kind_of(option);
    const std::string value =
        kind == Kind::flag     ? ""
        : kind == Kind::file   ? ":file:_files"
        : kind == Kind::folder ? ":folder:_files -/"
        : kind == Kind::text
            ? fmt::format(":{}: ", escaped(option.get_type_name(), "[]:()"))
            : fmt::format(":{}:({})", escaped(option.get_lnames().empty() ? "value" : option.get_lnames()[0], ":"),
                          fmt::join(choices_of(option, targets), " "));
    std::string lines;
    for (const std::string &word : words) {
        const std::string repeats = option.get_items_expected_max() > 1 ? "*" : "";
        lines += fmt::format("                {} \\\n", quoted(fmt::format("{}{}[{}]{}", repeats, word, text, value)));
    }
    return lines;
}

std::string zsh(const CLI::App &app, const std::vector<std::string> &targets) {
    std::string names, cases;
    for (const CLI::App *command : commands_of(app)) {
        names +=
            fmt::format("        {}\n",
                        quoted(fmt::format("{}:{}", command->get_name(), escaped(command->get_description(), ":"))));
        std::string arguments;
        for (const CLI::Option *option : named_options(*command)) arguments += zsh_option(*option, targets);
        cases += fmt::format("        {})\n            _arguments \\\n{}                '*:file:_files' ;;\n",
                             command->get_name(), arguments);
    }
    return fmt::format(
        "#compdef kiln\n# Completion of kiln for zsh: put it into a folder of $fpath, as _kiln.\n"
        "local -a commands\n"
        "if ((CURRENT == 2)); then\n    commands=(\n{}    )\n    _describe command commands\n"
        "    _arguments '--help[Help]' '--version[The version]' '--cmake-dir[The folder of the CMake package]'\n"
        "else\n    local command=$words[2]\n    shift words\n    ((CURRENT--))\n    case $command in\n{}    esac\nfi\n",
        names, cases);
}

std::string fish(const CLI::App &app, const std::vector<std::string> &targets) {
    std::string text =
        "# Completion of kiln for fish: put it into share/fish/vendor_completions.d/kiln.fish.\n"
        "complete -c kiln -n __fish_use_subcommand -l help -d 'Help'\n"
        "complete -c kiln -n __fish_use_subcommand -l version -d 'The version'\n"
        "complete -c kiln -n __fish_use_subcommand -l cmake-dir -d 'The folder of the CMake package'\n";
    for (const CLI::App *command : commands_of(app)) {
        const std::string &name = command->get_name();
        text += fmt::format("complete -c kiln -n __fish_use_subcommand -f -a {} -d {}\n", name,
                            quoted(command->get_description()));
        for (const CLI::Option *option : named_options(*command)) {
            std::string line = fmt::format("complete -c kiln -n '__fish_seen_subcommand_from {}'", name);
            for (const std::string &short_name : option->get_snames()) line += " -s " + short_name;
            for (const std::string &long_name : option->get_lnames()) line += " -l " + long_name;
            const Kind kind = kind_of(*option);
            if (kind == Kind::file || kind == Kind::folder) line += " -r -F";
            if (kind == Kind::text) line += " -x";
            if (kind == Kind::target || kind == Kind::choice) {
                line += " -x -a " + quoted(fmt::format("{}", fmt::join(choices_of(*option, targets), " ")));
            }
            text += line + " -d " + quoted(option->get_description()) + "\n";
        }
    }
    return text;
}

}  // namespace

std::string wrapped(const std::string &text, size_t columns) {
    std::string result;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t indent = indentation(line, columns);
        while (line.size() > columns) {
            const size_t space = line.rfind(' ', columns);
            if (space == std::string::npos || space <= indent) break;  // a single word
            result += line.substr(0, line.find_last_not_of(' ', space) + 1) + "\n";
            line = std::string(indent, ' ') + line.substr(space + 1);
        }
        result += line + "\n";
    }
    return result;
}

std::string Help::make_help(const CLI::App *app, std::string name, CLI::AppFormatMode mode) const {
    return wrapped(CLI::Formatter::make_help(app, std::move(name), mode), help_columns);
}

std::string man_page(const CLI::App &app, const std::string &version) {
    std::string text = fmt::format(
        ".TH KILN 1 \"\" \"Kiln {}\" \"User Commands\"\n.SH NAME\nkiln \\- compile convolutions ahead of time\n"
        ".SH SYNOPSIS\n\\fBkiln\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n{}\n.SH "
        "OPTIONS\n",
        version, roff(app.get_description()));
    for (const CLI::Option *option : named_options(app)) text += roff_option(*option);
    text += ".SH COMMANDS\n";
    for (const CLI::App *command : commands_of(app)) {
        std::string usage = fmt::format("\\fBkiln {}\\fR [\\fIOPTIONS\\fR]", command->get_name());
        for (const CLI::Option *option : positionals(*command))
            usage += fmt::format(" \\fI{}\\fR", roff(option->get_name(true)));
        text += fmt::format(".SS {}\n{}\n.PP\n{}\n", usage, "", roff(command->get_description()));
        for (const CLI::Option *option : positionals(*command)) text += roff_option(*option);
        for (const CLI::Option *option : named_options(*command)) text += roff_option(*option);
    }
    for (size_t at = 0; (at = text.find("\n\n", at)) != std::string::npos;) text.erase(at, 1);
    return text +
           ".SH EXIT STATUS\n0, all well; 1, something failed, and stderr says what; 2, usage.\n"
           ".SH ENVIRONMENT\n.TP\n\\fBCXX\\fR\nThe C++ compiler.\n.TP\n\\fBKILN_PYTHON\\fR\n"
           "A Python with the package onnx, to read models with.\n.TP\n\\fBNO_COLOR\\fR\nNothing is coloured.\n";
}

const std::vector<std::string> &completed_shells() {
    static const std::vector<std::string> shells = {"bash", "zsh", "fish"};
    return shells;
}

std::string completion(const CLI::App &app, const std::string &shell, const std::vector<std::string> &targets) {
    if (shell == "bash") return bash(app, targets);
    if (shell == "zsh") return zsh(app, targets);
    if (shell == "fish") return fish(app, targets);
    throw Error(fmt::format("{}: there is completion for {}", shell, fmt::join(completed_shells(), ", ")));
}

}  // namespace kiln::tools
