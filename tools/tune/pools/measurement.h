// Compiling candidates, and timing them in small programs that hold a batch each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/spec.h"
#include "library/contents.h"
#include "programs/programs.h"

namespace kiln::tools {

// A candidate that was compiled, or why it could not be.
struct CompiledCandidate {
    Decision decision;
    std::string error;  // "" if all went well
    double seconds = 0;
    std::shared_ptr<const LibraryKernel> kernel;
    std::string object, assembly;  // files
    std::vector<LoopCount> loops;  // where they were asked for
};

// What the program said of one kernel.
struct Timing {
    std::string verdict;                      // "ok", or "failed: why"
    std::vector<double> seconds;              // of each round
    std::vector<std::vector<double>> beside;  // the same rounds of each reference
    double took = 0;  // seconds: building its program, if it is the first of it, checking, timing
    // Where a problem with open sizes is timed at several, these of each; `seconds` are their geometric means then.
    struct AtSize {
        double seconds, ratio;  // medians: of the time, and of its ratio to the first reference's
    };
    std::vector<AtSize> sizes = {};
};

// What timed a kernel.
struct Machine {
    std::string processor;   // with its features and its runner: times are compared within one of these alone
    std::string host;        // which of them: a host's name, or a board's
    double calibration = 0;  // GFLOP/s of multiply-adds on registers alone, just before
    double load = 0;         // processes that wanted to run, averaged over the minute before, as the system tells
};

// How kernels are timed.
struct TimingRun {
    int references = 1, from = 0, rounds = 7;
    double seconds = 0.004;  // of a kernel in a round
    bool thorough = false;
    std::vector<std::string> sizes = {};  // texts of the problems that one with open sizes is timed at; else none
};

struct MeasurementOptions {
    const TargetModel *target;
    Toolchain toolchain;
    int jobs = 1;            // candidates compiled at once; none is while one is timed
    double time_limit = 60;  // seconds: for compiling one, and for a program to say something
    int64_t seed = 1;
    std::string folder;        // for files
    bool count_loops = false;  // compile() counts them, of kernels that do not share their loops among threads
    bool cold = false;         // as TuneOptions'
};

// Nothing of a problem can be timed: no program can be built with its references, or the program ends before it has
// timed anything, or says nothing that can be understood. Other problems may go on.
struct Untimed : Error {
    explicit Untimed(const std::string &message) : Error(message, StatusCode::failed) {}
};

class Measurement {
  public:
    explicit Measurement(const MeasurementOptions &options) : options_(options) {}

    // Each in a child process. In the order of `wanted`.
    struct Wanted {
        const Problem *problem;
        Decision decision;
    };
    std::vector<CompiledCandidate> compile(const std::vector<Wanted> &wanted);

    // Builds a program of the kernels, of which the first `references` are what all others are timed beside, runs it,
    // and calls `on_done` for each from kernel `from` on, as it is done. A kernel that no program can be built with, or
    // that ends the program, or hangs, is one that failed; the program is started again with the next. Throws Untimed,
    // and Error where no program can be built at all.
    void time(const Problem &problem, const std::vector<CompiledCandidate> &kernels, const TimingRun &run,
              const std::function<void(size_t kernel, const Timing &timing)> &on_done);

    // What the programs run on; its processor is "" before the first has.
    const Machine &machine() const { return machine_; }

  private:
    BuiltProgram build(const std::vector<CompiledCandidate> &kernels);
    void time_program(const Problem &problem, const Program &program, size_t count, const TimingRun &run,
                      const std::function<void(size_t kernel, const Timing &timing)> &on_done);

    MeasurementOptions options_;
    Machine machine_;
    int programs_ = 0;
};

double median(std::vector<double> values);

}  // namespace kiln::tools
