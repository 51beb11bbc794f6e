// Tuning a SPEC's problems within a budget: which of them gets the next candidates, and what is decided in the end.
// Where the work runs is a Pool's affair: as many problems as it wants have a batch under way, each one.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "system/progress.h"
#include "system/temp_folder.h"
#include "tune/known.h"
#include "tune/options.h"
#include "tune/pools/pool.h"
#include "tune/predict.h"
#include "tune/records.h"
#include "tune/search.h"

namespace kiln::tools {

constexpr size_t finalist_pool = 3;  // the best, of which two are compared with the default once more

// Candidates of one problem that are compiled together, then timed together.
struct Batch {
    enum class Kind { search, baseline, final };  // candidates; the default alone; the last comparison with it
    Kind kind = Kind::search;
    int proposed = 0;  // of them, what the budget counts
    std::vector<CompiledCandidate> candidates;
    size_t compiling = 0;                    // of them, still to come
    std::vector<CompiledCandidate> kernels;  // that are timed: references first
    double begin = 0;                        // seconds
    double best_before = 1;                  // ratio
};

// A problem of the SPEC, with all layers that have it.
struct TunedProblem {
    TunedProblem(std::string text, Problem asked) : text(std::move(text)), asked(std::move(asked)) {}

    std::string text;
    Problem asked;
    std::vector<std::string> layers;
    std::vector<std::string> sizes;  // that it is timed at, problems' texts, where it leaves some open
    // Made when its turn comes: to find the spaces of ten thousand takes seconds, in which a fleet would wait.
    std::optional<Search> search;
    int tried() const { return search ? search->tried() : 0; }
    std::string error;      // why it could not be tuned; "" if nothing went wrong
    std::string processor;  // that timed it, and no other may; "" before
    std::string host;       // that timed it last

    double default_ms = 0;  // or cycles, where they are predicted
    double gain = 0;        // of the last batches, smoothed
    int batches = 0;
    double seconds = 0;  // spent on it
    bool exhausted = false;
    std::optional<Batch> batch;  // that is under way
    bool settled = false;

    std::vector<CompiledCandidate> compiled;  // the default first, and the best
    std::vector<Record> records;              // of this run, in order
    std::vector<double> when;                 // seconds from the run's start, of each
    std::vector<Record> compared;             // by last comparisons of an earlier run

    // What was decided.
    Decision decision;
    double ratio = 1;  // of its time to the default's
    double noise = 0;  // of that ratio
};

// ", by HOST": who measured it last, for lines of progress; "" where nobody did.
std::string by_host(const TunedProblem &problem);

class Tuning : private Pool::Listener {
  public:
    explicit Tuning(const TuneOptions &options);

    // Returns whether every problem could be tuned. Throws Error where all has to stop; what was recorded stays.
    bool run();

    const std::vector<TunedProblem> &problems() const { return problems_; }
    const TargetModel &target() const { return target_; }
    std::string machine() const;
    bool predicts() const { return predictor_.has_value(); }
    double elapsed() const { return pool_->now(); }
    const Pool &pool() const { return *pool_; }

  private:
    void collect_problems();
    void collect_layer(const LayerSpec &layer, std::vector<TunedProblem> *found,
                       std::map<std::string, size_t> *places) const;
    void resume_all();
    void resume(TunedProblem &problem);

    // The budget.
    double spent() const;
    double reserve() const;
    bool may_go_on() const;
    bool somebody_waits() const;
    bool candidates_by_layer() const;
    bool may_search(const TunedProblem &problem) const;
    bool begin_search(TunedProblem &problem);
    TunedProblem *most_promising();

    // What is begun, and what follows when it is done.
    bool begin_something();
    bool begin_settling(int keep);
    bool is_to_be_settled(const TunedProblem &problem) const;
    void work();
    void keep_records();
    void take_batch(TunedProblem &problem);
    void examine(TunedProblem &problem, std::vector<Decision> decisions, Batch::Kind kind);
    void compile(TunedProblem &problem, const std::vector<Decision> &decisions, Batch::Kind kind, int proposed);
    void finish_compiling(TunedProblem &problem);
    void predict(TunedProblem &problem, const std::vector<size_t> &indices);
    void measure(TunedProblem &problem, const std::vector<size_t> &indices);
    void finish_timing(TunedProblem &problem);
    void end_batch(TunedProblem &problem);
    void settle(TunedProblem &problem);
    std::vector<Decision> finalists(const TunedProblem &problem) const;
    void compare_finalists(TunedProblem &problem);
    void judge_finalist(TunedProblem &problem, const Record &record);
    bool judge_by_earlier_comparison(TunedProblem &problem);
    void finish_settling(TunedProblem &problem);
    void time(TunedProblem &problem, TimingRun run);

    void compiled(Pool::Task task, CompiledCandidate candidate) override;
    void timed(Pool::Task task, size_t kernel, const Timing &timing, const Machine &machine) override;
    void ended(Pool::Task task, const std::string &error) override;
    void note(const std::string &text) override { progress_->note(text); }

    void record(TunedProblem &problem, const CompiledCandidate &candidate, const Timing &timing, double ratio,
                const Machine &machine);
    void release_slow(TunedProblem &problem);
    size_t index_of(const TunedProblem &problem, const Decision &decision) const;
    void write_decisions(bool now);
    void show(const TunedProblem &problem);

    const TuneOptions &options_;
    const TargetModel &target_;
    TempFolder folder_;
    std::optional<Predictor> predictor_;
    std::unique_ptr<RecordWriter> writer_;
    std::unique_ptr<Pool> pool_;
    KnownRecords known_;
    std::vector<TunedProblem> problems_;
    struct Work {
        TunedProblem *problem;
        size_t candidate;  // of its batch, where it is compiled
    };
    std::map<Pool::Task, Work> tasks_;
    Pool::Task next_task_ = 0;
    int under_way_ = 0, searching_ = 0;  // batches, and those of them that search
    int most_under_way_ = 0;             // at any time so far
    size_t settled_ = 0;                 // problems, without a gap, from the first on
    std::unique_ptr<Progress> progress_;
    bool good_ = true;
    int tried_ = 0;
    // When the decisions were last written, and how long that took.
    std::chrono::steady_clock::time_point written_{};
    std::chrono::steady_clock::duration writing_{};
};

}  // namespace kiln::tools
