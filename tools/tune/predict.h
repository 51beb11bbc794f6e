// What a kernel would cost on a processor that is not here: its innermost loops, read back from the assembly and put
// through llvm-mca, times how often they run.
#pragma once

#include <string>
#include <vector>

#include "tune/pools/measurement.h"

namespace kiln::tools {

// An innermost loop of an assembly file.
struct AssemblyLoop {
    std::string function, label;
    std::vector<std::string> lines;  // its instructions
    int products = 0;                // of vectors: multiply-adds and dot products
};

// Of every function but those whose names end in _pack.
std::vector<AssemblyLoop> assembly_loops(const std::string &assembly);

class Predictor {
  public:
    // Throws Error where Kiln trusts no model of the processor, it does not run the target, or there is no llvm-mca of
    // version 19 or newer.
    Predictor(const std::string &cpu, const TargetModel &target);

    // "predicted by llvm-mca 19.1.7 for neoverse-n1"
    const std::string &name() const { return name_; }

    // The cycles of a call, everything in the nearest cache. Throws Error.
    double cycles(const CompiledCandidate &candidate) const;

    // Cycles of one pass of each loop.
    std::vector<double> cycles_of_passes(const std::vector<AssemblyLoop> &loops, const std::string &folder) const;

  private:
    std::string program_, cpu_, triple_, name_;
};

}  // namespace kiln::tools
