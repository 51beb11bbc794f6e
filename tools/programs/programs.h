// The small programs of tools/harness/: built against a compiled library with the user's compiler, and started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "library/library.h"
#include "targets/target_model.h"

namespace kiln::tools {

// What builds and starts programs of one target.
struct Toolchain {
    std::vector<std::string> cxx;     // the C++ compiler's command
    std::vector<std::string> runner;  // what starts its programs; empty: nothing
    std::string sources;              // the folder of the programs' sources, which kiln brings along
};

// `cxx`, else $CXX, else the target's usual compiler, which is "c++" for this machine's own architecture. Both
// arguments of the command line may have several words. Throws Error where no compiler is known, or the sources are
// missing.
Toolchain find_toolchain(const std::string &cxx, const std::string &runner, const TargetModel &target);

// What programs of one target are made by, of layers.
struct ProgramOptions {
    std::string target;     // "": this machine's
    std::string runner;     // command line that starts a program of the target; "": started directly
    std::string cxx;        // C++ compiler of the target; "": $CXX, else the usual one for the target
    std::string decisions;  // as CompileOptions'
    int jobs = 1;
    bool fallbacks = true;  // as CompileOptions'

    std::string target_or_host() const { return target.empty() ? "host" : target; }
};

// The library that a program links: the layers' kernels alone. Its warnings are said on stderr.
CompiledLibrary compile_kernels(const ProgramOptions &options, const std::string &name,
                                const std::vector<LayerSpec> &layers, const std::string &folder);

// A program for a library.
struct Program {
    std::string executable;
    std::vector<std::string> runner;

    // The command line that starts it with these arguments.
    std::vector<std::string> command(const std::vector<std::string> &arguments) const;
};

// A program, and the layers that are not in it.
struct BuiltProgram {
    std::optional<Program> program;       // none where no layer is left
    std::vector<Spec::Failure> failures;  // what the compiler or the linker fails at
};

// Builds the harness against a library, into `folder`. What does not depend on the library is compiled once and kept in
// the user's cache ($XDG_CACHE_HOME/kiln, else ~/.cache/kiln). Where that fails, the layers that it fails at are found
// and left out. Throws Error, with the end of what the compiler said, where it fails without any layer too.
BuiltProgram build_program(const CompiledLibrary &library, const Toolchain &toolchain, const std::string &folder,
                           int jobs);

// A program with a main file of its own, and what the others have too.
struct ProgramParts {
    std::string main;                  // a file in the folder of the sources
    std::string header, archive;       // of the library, or a header alone
    std::vector<std::string> defines;  // "KILN_NETWORK=net_network"
    bool loads_driver = false;         // of a GPU, when it runs, which a static program cannot
};
Program build_program(const ProgramParts &parts, const Toolchain &toolchain, const std::string &folder, int jobs);

}  // namespace kiln::tools
