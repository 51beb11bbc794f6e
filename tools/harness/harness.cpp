// The command line of the harness.
#include "harness/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <utility>

namespace kiln::harness {
namespace {

constexpr char usage_text[] =
    "usage: PROGRAM verify [--json] [--layer NAME]... [--seed N] [--draws N] [--kernel TARGET]\n"
    "               [--weights-dir DIR] [--size LAYER=PROBLEM]...\n"
    "       PROGRAM bench [--json FILE|-] [--layer NAME]... [--seed N] [--draws N] [--kernel TARGET]\n"
    "               [--seconds S] [--threads N] [--cold] [--workers N,N,...] [--rounds N]\n"
    "               [--size LAYER=PROBLEM]...\n"
    "       PROGRAM run REQUESTS\n"
    "       PROGRAM tune [--seed N] [--references N] [--from N] [--seconds S] [--rounds N]\n"
    "               [--expected FILE] [--thorough] [--cold] [--size PROBLEM]...\n";

int usage_error(const std::string &message) {
    std::fprintf(stderr, "%s\n%s", message.c_str(), usage_text);
    return 2;
}

bool parse_number(const char *text, double low, double high, double *value) {
    char *end = nullptr;
    *value = std::strtod(text, &end);
    return end != text && *end == '\0' && *value >= low && *value <= high;
}

// Reads numbers with commas between them. Whether they are all 1 to `high`.
bool parse_numbers(const char *text, int high, std::vector<int> *values) {
    for (std::stringstream list(text); list.good();) {
        std::string word;
        double number = 0;
        std::getline(list, word, ',');
        if (!parse_number(word.c_str(), 1, high, &number)) return false;
        values->push_back(static_cast<int>(number));
    }
    return true;
}

constexpr std::pair<const char *, int Options::*> tune_counts[] = {{"--references", &Options::references},
                                                                   {"--from", &Options::from}};

// Reads one option with its value. Returns "" or what is wrong.
std::string parse_option(const std::string &name, const char *value, const std::string &verb, Options *options) {
    double number = 0;
    if (name == "--layer") {
        options->layers.push_back(value);
    } else if (name == "--kernel") {
        options->kernel = value;
    } else if (name == "--json" && verb == "bench") {
        options->json_file = value;
    } else if (name == "--weights-dir" && verb == "verify") {
        options->weights_folder = value;
    } else if (name == "--seed") {
        if (!parse_number(value, 0, 9e15, &number)) return name + " is " + value + ": it must be a whole number";
        options->seed = static_cast<uint64_t>(number);
    } else if (name == "--draws") {
        if (!parse_number(value, 1, 1e6, &number)) return name + " is " + value + ": it must be 1 to 1000000";
        options->draws = static_cast<int>(number);
    } else if (name == "--expected" && verb == "tune") {
        options->expected = value;
    } else if (name == "--size" && verb != "run") {
        options->sizes.push_back(value);
    } else if (const auto count = std::find_if(std::begin(tune_counts), std::end(tune_counts),
                                               [&](const auto &row) { return name == row.first; });
               count != std::end(tune_counts) && verb == "tune") {
        if (!parse_number(value, 0, 1e6, &number)) return name + " is " + value + ": it must be 0 to 1000000";
        options->*count->second = static_cast<int>(number);
    } else if (name == "--rounds" && (verb == "bench" || verb == "tune")) {
        if (!parse_number(value, 1, 1e6, &number)) return name + " is " + value + ": it must be 1 to 1000000";
        options->rounds = static_cast<int>(number);
    } else if (name == "--seconds" && verb != "verify") {
        if (!parse_number(value, 0, 3600, &options->seconds)) return name + " is " + value + ": it must be 0 to 3600";
    } else if (name == "--threads" && verb == "bench") {
        if (!parse_number(value, 1, 1024, &number)) return name + " is " + value + ": it must be 1 to 1024";
        options->threads = static_cast<int>(number);
    } else if (name == "--workers" && verb == "bench") {
        if (!parse_numbers(value, 1024, &options->workers))
            return name + " is " + value + ": it must be numbers of 1 to 1024 with commas between them";
    } else {
        return verb + " has no option " + name;
    }
    return "";
}

// Returns "" or the first wanted layer that the library lacks.
std::string missing_layer(const kiln_library &library, const Options &options) {
    for (const std::string &name : options.layers) {
        bool found = false;
        for (int32_t i = 0; i < library.layer_count; ++i) found = found || name == library.layers[i].name;
        if (!found) return name;
    }
    return "";
}

// The only command of a program that has just one; "" otherwise.
std::string only_command(const Commands &commands) {
    const std::pair<const char *, Command> each[] = {
        {"verify", commands.verify}, {"bench", commands.bench}, {"run", commands.run}, {"tune", commands.tune}};
    std::string only;
    for (const auto &[name, command] : each) {
        if (command == nullptr) continue;
        if (!only.empty()) return "";
        only = name;
    }
    return only;
}

Command find_command(const Commands &commands, const std::string &verb) {
    return verb == "verify"  ? commands.verify
           : verb == "bench" ? commands.bench
           : verb == "run"   ? commands.run
           : verb == "tune"  ? commands.tune
                             : nullptr;
}

}  // namespace

int main(const kiln_library &library, const Commands &commands, int argc, char **argv, const char *weights_folder) {
    std::string verb = only_command(commands);
    int at = 1;
    if (at < argc && argv[at][0] != '-') verb = argv[at++];
    const Command command = find_command(commands, verb);
    if (command == nullptr) return usage_error("unknown command \"" + verb + "\"");
    Options options;
    options.weights_folder = weights_folder;
    if (verb == "run") {
        if (argc != at + 1) return usage_error("run takes one file of requests");
        options.requests = argv[at];
        return command(library, options);
    }
    for (; at < argc; ++at) {
        if (verb == "verify" && std::strcmp(argv[at], "--json") == 0) {
            options.json = true;
            continue;
        }
        if ((verb == "bench" || verb == "tune") && std::strcmp(argv[at], "--cold") == 0) {
            options.cold = true;
            continue;
        }
        if (verb == "tune" && std::strcmp(argv[at], "--thorough") == 0) {
            options.thorough = true;
            continue;
        }
        if (at + 1 == argc)
            return usage_error(std::string(argv[at]) + ": no such option of " + verb + ", or its value is missing");
        const std::string error = parse_option(argv[at], argv[at + 1], verb, &options);
        if (!error.empty()) return usage_error(error);
        ++at;
    }
    if (const std::string name = missing_layer(library, options); !name.empty())
        return usage_error("the library " + std::string(library.name) + " has no layer " + name);
    return command(library, options);
}

}  // namespace kiln::harness
