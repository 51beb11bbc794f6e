// The command line of the harness.
#include "harness/harness.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kiln::harness {
namespace {

constexpr char usage_text[] =
    "usage: PROGRAM verify [--json] [--layer NAME]... [--seed N] [--kernel TARGET] [--weights-dir DIR]\n"
    "       PROGRAM bench [--json FILE|-] [--layer NAME]... [--seconds S] [--threads N] [--kernel TARGET]\n"
    "       PROGRAM run REQUESTS\n";

int usage_error(const std::string &message) {
    std::fprintf(stderr, "%s\n%s", message.c_str(), usage_text);
    return 2;
}

bool parse_number(const char *text, double low, double high, double *value) {
    char *end = nullptr;
    *value = std::strtod(text, &end);
    return end != text && *end == '\0' && *value >= low && *value <= high;
}

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
    } else if (name == "--seed" && verb == "verify") {
        if (!parse_number(value, 0, 9e15, &number)) return name + " is " + value + ": it must be a whole number";
        options->seed = static_cast<uint64_t>(number);
    } else if (name == "--seconds" && verb == "bench") {
        if (!parse_number(value, 0, 3600, &options->seconds)) return name + " is " + value + ": it must be 0 to 3600";
    } else if (name == "--threads" && verb == "bench") {
        if (!parse_number(value, 1, 1024, &number)) return name + " is " + value + ": it must be 1 to 1024";
        options->threads = static_cast<int>(number);
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

}  // namespace

int main(const kiln_library &library, const char *default_verb, int argc, char **argv) {
    std::string verb = default_verb;
    int at = 1;
    if (at < argc && argv[at][0] != '-') verb = argv[at++];
    if (verb != "verify" && verb != "bench" && verb != "run") return usage_error("unknown command \"" + verb + "\"");
    Options options;
    if (verb == "run") {
        if (argc != at + 1) return usage_error("run takes one file of requests");
        options.requests = argv[at];
        return run(library, options);
    }
    for (; at < argc; ++at) {
        if (verb == "verify" && std::strcmp(argv[at], "--json") == 0) {
            options.json = true;
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
    return verb == "verify" ? verify(library, options) : bench(library, options);
}

}  // namespace kiln::harness
