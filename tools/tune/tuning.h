// Tuning a SPEC's problems within a budget: which of them gets the next candidates, and what is decided in the end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "progress.h"
#include "temp_folder.h"
#include "tune/measurement.h"
#include "tune/predict.h"
#include "tune/records.h"
#include "tune/search.h"

namespace kiln::tools {

// A problem of the SPEC, with all layers that have it.
struct TunedProblem {
    TunedProblem(std::string text, std::vector<std::string> layers, Search search)
        : text(std::move(text)), layers(std::move(layers)), search(std::move(search)) {}

    std::string text;
    std::vector<std::string> layers;
    Search search;
    std::string error;  // why it could not be tuned; "" if nothing went wrong

    double default_ms = 0;  // or cycles, where they are predicted
    double gain = 0;        // of the last batches, smoothed
    int batches = 0;
    double seconds = 0;  // spent on it
    bool exhausted = false;

    std::vector<CompiledCandidate> compiled;  // the default first
    std::vector<Record> records;              // of this run, in order
    std::vector<double> when;                 // seconds from the run's start, of each

    // What was decided.
    Decision decision;
    double ratio = 1;  // of its time to the default's
    double noise = 0;  // of that ratio
};

class Tuning {
  public:
    explicit Tuning(const TuneOptions &options);

    // Returns whether every problem could be tuned. Throws Error where all has to stop; what was recorded stays.
    bool run();

    const std::vector<TunedProblem> &problems() const { return problems_; }
    const TargetModel &target() const { return target_; }
    std::string machine() const;
    bool predicts() const { return predictor_.has_value(); }
    double elapsed() const;

  private:
    void collect_problems();
    void read_known();
    double spent() const;
    double reserve() const;
    bool may_go_on() const;
    TunedProblem *most_promising();
    void take_batch(TunedProblem &problem);
    void examine(TunedProblem &problem, std::vector<Decision> decisions);
    void predict(TunedProblem &problem, const std::vector<size_t> &batch);
    void time(TunedProblem &problem, const std::vector<CompiledCandidate> &kernels, const Measurement::Run &run,
              const std::function<void(size_t kernel, const Timing &timing)> &on_done);
    void measure(TunedProblem &problem, const std::vector<size_t> &batch);
    void settle(TunedProblem &problem);
    void record(TunedProblem &problem, const CompiledCandidate &candidate, const Timing &timing, double ratio,
                bool final);
    void start(TunedProblem &problem);
    void resume(TunedProblem &problem);
    size_t index_of(const TunedProblem &problem, const Decision &decision) const;
    void write_decisions() const;
    void show(const TunedProblem &problem);

    const TuneOptions &options_;
    const TargetModel &target_;
    TempFolder folder_;
    std::optional<Measurement> measurement_;
    std::optional<Predictor> predictor_;
    std::unique_ptr<RecordWriter> writer_;
    std::vector<Record> known_;  // of the timings file, for this target
    std::vector<TunedProblem> problems_;
    std::unique_ptr<Progress> progress_;
    bool good_ = true;
    int tried_ = 0;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace kiln::tools
