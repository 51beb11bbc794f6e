// From a model to a compiled network, and to the program that runs it.
#pragma once

#include <string>

#include "network/network_commands.h"
#include "network/network_library.h"
#include "programs/programs.h"

namespace kiln::tools {

// A model as it was read, with what it needs for being compiled.
struct NetworkModel {
    Spec spec;
    NetworkSet set;
};

// The folder of one of a model's networks, and what the importer said of it, in the network's folder.
std::string network_folder(const std::string &folder, size_t index);
std::string answer_file(const std::string &folder);

// Reads a model; its weights go to the folder, and what the importer says of each network to its answer_file(). Throws
// Error where it is no model, or nobody can compute all of it: then the message names the nodes.
NetworkModel load_network(const std::string &path, SpecOptions options, const std::string &folder);

// Throws Error where a layer does not compile, naming it.
void require_layers(const CompiledLibrary &library);

// The same for a program that runs it, with the inputs of each network in its folder: those of a file, the network that
// these fit being the only one, or random ones. Throws Error also where the file is not right.
NetworkModel load_with_inputs(const NetworkOptions &options, const std::string &folder);

// A model's networks compiled for one target, with a program beside them.
struct NetworkProgram {
    NetworkModel model;
    CompiledNetwork compiled;
    Program program;
    std::string folder;

    std::string answer(size_t index) const { return answer_file(network_folder(folder, index)); }
    std::string manifest() const { return compiled.library.manifest; }
};
NetworkProgram build_network(const NetworkOptions &options, NetworkModel loaded, NetworkExtra extra,
                             const std::string &folder);

// Starts a script of the importer's folder. Its stdout goes where ours does, unless `output` is given. Throws Error
// with what it says where it fails; `ok` may name a second status that is no failure. Returns the status.
int run_network_script(const std::string &script, const std::vector<std::string> &arguments,
                       std::string *output = nullptr);

// Runs each network once: its folder then has its outputs.
void run_network_program(const NetworkOptions &options, const NetworkProgram &network);

}  // namespace kiln::tools
