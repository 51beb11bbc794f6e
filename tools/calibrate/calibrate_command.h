// kiln calibrate: what a target's row says of a core, measured.
#pragma once

#include <string>
#include <vector>

namespace kiln::tools {

struct CalibrateOptions {
    std::string target, runner, cxx;  // as ProgramOptions'
    std::string predict;              // a processor of llvm-mca's, in place of this machine; "": this machine
    std::vector<int64_t> caches;      // bytes, the nearest first; empty: those that the system tells
    int jobs = 1;
    bool json = false;
};
int calibrate_command(const CalibrateOptions &options);

}  // namespace kiln::tools
