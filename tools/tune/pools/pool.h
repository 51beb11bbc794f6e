// Where candidates are compiled and timed: on this machine, on a fleet, or nowhere, by recorded timings. The tuner
// knows of nothing else, so that it decides the same wherever the work runs.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tune/pools/measurement.h"

namespace kiln::tools {

class Pool {
  public:
    using Task = size_t;  // a number of the caller's

    // What has become of tasks.
    class Listener {
      public:
        virtual void compiled(Task task, CompiledCandidate candidate) = 0;
        // One kernel of a timing task; each is told once.
        virtual void timed(Task task, size_t kernel, const Timing &timing, const Machine &machine) = 0;
        // No more is told of a timing task. `error` says why nothing of its problem can be timed; "" if all was.
        virtual void ended(Task task, const std::string &error) = 0;
        // Something to tell the user: a machine came or went.
        virtual void note(const std::string &text) = 0;

      protected:
        ~Listener() = default;
    };

    virtual ~Pool() = default;

    // Whether there is room for another batch of candidates: enough is under way to keep every machine busy otherwise.
    virtual bool wants_work() const = 0;

    // Both return at once; wait() does the telling. A problem is the caller's until its task is done.
    virtual void compile(Task task, const Problem &problem, const Decision &decision) = 0;
    // Times kernels of one problem, which compile() handed out, as Measurement::time does: on one machine, whose
    // processor is `processor` unless that is "".
    virtual void time(Task task, const Problem &problem, const std::vector<CompiledCandidate> &kernels,
                      const TimingRun &run, const std::string &processor) = 0;
    // The candidate will not be timed again.
    virtual void release(const CompiledCandidate &) {}

    // Waits until something can be told, and tells it. Throws Error where all has to stop.
    virtual void wait(Listener &listener) = 0;

    // The tuner has waited so long for something else, a disk: what a clock that is not the wall's has to be told.
    virtual void waited(double) {}
    // Nothing more is asked: what describe() tells is final.
    virtual void finish() {}
    // Seconds since the pool was made, by the clock that its work is timed by.
    virtual double now() const = 0;
    // The processors that kernels are timed on, as Machine says them; empty before anything is known of them.
    virtual std::vector<std::string> processors() const = 0;
    // What the report tells: {"machines": [{"host", "machine", "calibration", "timed", "busy", "state"}], "timers",
    // "compilers", "timers_busy", "compilers_busy", "refused": {machine: why}, "lost", "retried"}, with what the pool
    // knows of these. Being busy is a share of the time so far.
    virtual nlohmann::ordered_json describe() const = 0;
};

}  // namespace kiln::tools
