// bench: the time of each layer's kernel, and its share of the processor's peak.
//
// The layers are timed in several rounds, one after the other in each, with the peak measured before every one of them:
// a machine that slows down for a while slows all alike. A layer's time is the median, over the rounds, of the fastest
// call in each, and the peak the median of each round's highest; a spread is how far the rounds' times lie apart.
//
// All this is done in a process of its own. Where a layer's kernel ends that, the others are timed again without it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>

#include "harness/gpu.h"
#include "harness/harness.h"
#include "harness/json.h"
#include "harness/machine/balance.h"
#include "harness/machine/machine.h"
#include "harness/machine/own_process.h"
#include "harness/machine/threads.h"
#include "harness/machine/timing.h"
#include "harness/tensors/data.h"
#include "kiln/cpu.h"
#include "kiln/plan.h"

namespace kiln::harness {
namespace {

constexpr int usual_rounds = 5;
constexpr double peak_seconds = 0.005;  // for one measurement of the peak
constexpr int times_in_a_row = 50;      // that all layers of a GPU run for one measurement of them together

// The kernel that `problem` runs with: of target `kernel`, or whichever the library picks where that is "".
Status pick(const kiln_library &library, const Problem &problem, const std::string &kernel, Plan *plan) {
    if (kernel.empty()) return Plan::create(library, problem, plan);
    Problem pattern;
    for (int32_t i = 0; i < library.kernel_count; ++i) {
        KILN_RETURN_IF_ERROR(parse(library.kernels[i].problem, &pattern));
        if (kernel == library.kernels[i].target && matches(pattern, problem))
            return Plan::create(library.kernels[i], problem, plan);
    }
    return Status::unsupported("no kernel of target %s", kernel.c_str());
}

// The peak of all threads together.
double measure_peak_of_threads(Isa isa, const kiln_threads *threads) {
    if (threads == nullptr) return measure_peak(isa, peak_seconds);
    std::vector<double> peaks(threads->workers);
    on_every_worker(*threads, [&](int32_t worker) { peaks[worker] = measure_peak(isa, peak_seconds); });
    return std::accumulate(peaks.begin(), peaks.end(), 0.0);
}

// "64+49": how many pieces each parallel loop has.
std::string counts_text(const PieceTimes &times, const char *between) {
    std::string text;
    for (const std::vector<double> &loop : times.loops)
        text += (text.empty() ? "" : between) + std::to_string(loop.size());
    return text;
}

std::string pieces_json(const PieceTimes &times) {
    return "[" + counts_text(times, ", ") + "]";
}

std::string balance_json(const std::vector<PieceTimes> &of_workers) {
    std::vector<std::string> list;
    for (const PieceTimes &times : of_workers) {
        const Balance balance = simulate(times);
        JsonObject object;
        object.number("workers", times.workers).raw("pieces", pieces_json(times));
        object.number("largest_share", balance.largest_share).number("speed_up", balance.speed_up);
        list.push_back(object.str());
    }
    return json_list(list);
}

// One line of the result: a layer and the job that stands for its problem, or why there is none.
struct Row {
    const kiln_layer *layer;
    std::string problem;
    const Job *job = nullptr;
    std::string error;
};

// What the process that times says to the one that waits for it.
struct Progress {
    int32_t layer = -1;  // the one whose kernel runs, in the library
    bool done = false;
    int status = 0;  // once it is done
};

// The layers whose kernels ended the process that timed them, and how.
using Endings = std::map<int32_t, std::string>;

class Bench {
  public:
    Bench(const kiln_library &library, const Options &options, const Endings &endings, Progress *progress)
        : options_(options), endings_(endings), progress_(progress), team_(options.threads) {
        // Threads that wake each other up tend to end on one processor, which each measurement would find otherwise.
        if (threads() != nullptr) on_every_worker(*threads(), pin_to_cpu);
        for (int32_t i = 0; i < library.layer_count; ++i)
            if (options.wants(library.layers[i].name)) add(library, i);
    }

    void run() {
        const int rounds = options_.rounds > 0 ? options_.rounds : usual_rounds;
        const int count = options_.seconds > 0 ? rounds : 1;
        for (int round = 1; round <= count; ++round) {
            std::fprintf(stderr, "round %d of %d\n", round, count);
            std::map<Isa, double> highest;
            for (auto &[problem, job] : jobs_) {
                progress_->layer = layers_.at(problem);
                double &peak = highest[isa_of(job.plan.kernel().features)];
                peak = std::max(peak, measure_peak_of_threads(isa_of(job.plan.kernel().features), threads()));
                job.times.push_back(time_calls(job, options_.seconds / rounds));
            }
            for (const auto &[isa, peak] : highest) peaks_[isa].push_back(peak);
        }
        time_in_a_row();
        for (auto &[problem, job] : jobs_) {
            if (options_.workers.empty() || job.on_gpu != nullptr) continue;
            progress_->layer = layers_.at(problem);
            for (const int workers : options_.workers)
                pieces_[&job].push_back(time_pieces(&job, workers, options_.seconds / options_.workers.size()));
        }
    }

    void print_table() const;
    void print_balance() const;
    std::string json() const;
    bool all_ran() const {
        return std::all_of(rows_.begin(), rows_.end(), [](const Row &row) { return row.job != nullptr; });
    }

  private:
    const kiln_threads *threads() const { return options_.threads > 1 ? team_.hook() : nullptr; }

    // A layer that leaves sizes open is timed with several problems.
    void add(const kiln_library &library, int32_t index) {
        const kiln_layer &layer = library.layers[index];
        progress_->layer = index;
        if (const auto ending = endings_.find(index); ending != endings_.end())
            return rows_.push_back({&layer, layer.problem, nullptr, ending->second});
        Problem pattern;
        if (const Status status = parse(layer.problem, &pattern); !status.ok())
            return rows_.push_back({&layer, layer.problem, nullptr, status.message()});
        if (!pattern.has_open_sizes()) return add(library, layer, pattern);
        std::vector<Problem> problems;
        append_sizes(layer.name, pattern, options_, problems);
        const int draws = problems.empty() ? options_.draws : 0;
        for (int i = 0; i < draws; ++i)
            problems.push_back(random_problem(pattern, draw_seed(options_, i), Sizes::typical));
        for (const Problem &problem : problems) add(library, layer, problem);
    }

    void add(const kiln_library &library, const kiln_layer &layer, const Problem &problem) {
        Row row{&layer, print(problem).c_str(), nullptr, ""};
        // Embedded weights are a function of their own for each layer.
        const kiln_run_function embedded = layer.pack_embedded == nullptr ? layer.run_embedded : nullptr;
        const std::string key = embedded != nullptr ? layer.name : row.problem;
        const auto [at, is_new] = jobs_.try_emplace(key);
        if (is_new) {
            layers_[key] = progress_->layer;
            at->second.run_embedded = embedded;
            Plan plan;
            Status status = pick(library, problem, options_.kernel, &plan);
            if (status.ok()) status = prepare(plan, options_.seed, threads(), &at->second);
            if (status.ok() && options_.cold) status = make_cold(&at->second);
            if (status.ok()) {
                plan_seconds_.push_back(
                    time_repeatedly([&] { (void)pick(library, problem, options_.kernel, &plan).ok(); }));
                check_seconds_.push_back(time_checks(at->second));
            }
            if (!status.ok()) {
                row.error = status.message();
                jobs_.erase(at);
            }
        }
        if (row.error.empty()) row.job = &at->second;
        rows_.push_back(row);
    }

    // All layers on a GPU, one behind the other as a network's are: queued one by one by the processor, and captured
    // once, so that nothing of the processor's is between them.
    void time_in_a_row() {
        std::vector<GpuRun *> runs;
        int32_t api = kiln_gpu_none;
        for (const Row &row : rows_) {
            if (row.job == nullptr || row.job->on_gpu == nullptr) continue;
            api = row.job->plan.kernel().gpu;
            runs.push_back(row.job->on_gpu.get());
        }
        if (runs.size() < 2 || options_.seconds <= 0) return;
        if (const std::vector<double> seconds = gpu_support.time(api, runs, times_in_a_row); !seconds.empty())
            in_a_row_.captured = median(seconds);
        int times = 0;
        const double begin = now();
        do {
            for (GpuRun *run : runs)
                if (!run->start().ok()) return;
        } while (++times < times_in_a_row && now() - begin < options_.seconds);
        if (!runs[0]->finish().ok()) return;
        in_a_row_.queued = (now() - begin) / times;
        in_a_row_.layers = static_cast<int>(runs.size());
    }

    // GFLOP/s that a job could do at the most. Vectors hold half as many float64.
    double peak(const Job &job) const {
        if (job.on_gpu != nullptr) return NAN;  // nothing here measures a GPU's
        const double peak = median(peaks_.at(isa_of(job.plan.kernel().features)));
        return job.plan.problem().x_type == DType::f64 ? peak / 2 : peak;
    }
    double gflops(const Job &job) const { return job.flops() / job.seconds() * 1e-9; }

    struct Totals {
        double seconds = 0, flops = 0, seconds_at_peak = 0;
    };
    Totals totals() const {
        Totals sum;
        for (const Row &row : rows_) {
            if (row.job == nullptr) continue;
            sum.seconds += row.job->seconds();
            sum.flops += row.job->flops();
            sum.seconds_at_peak += row.job->flops() / (peak(*row.job) * 1e9);
        }
        return sum;
    }

    double pack_seconds() const {
        double sum = 0;
        for (const auto &[problem, job] : jobs_) sum += job.pack_seconds;
        return sum;
    }

    const Options &options_;
    const Endings &endings_;
    Progress *const progress_;
    ThreadTeam team_;
    std::map<std::string, Job> jobs_;        // by problem; a job's address does not change
    std::map<std::string, int32_t> layers_;  // by the same, the first of its layers
    std::vector<Row> rows_;
    std::map<Isa, std::vector<double>> peaks_;               // of each round
    std::map<const Job *, std::vector<PieceTimes>> pieces_;  // where simulated workers share them
    struct InARow {
        int layers = 0;                   // on a GPU, all of them together; 0 where they were not timed so
        double queued = 0, captured = 0;  // seconds; captured: as one CUDA graph, 0 where there is none
    } in_a_row_;
    std::vector<double> plan_seconds_, check_seconds_;  // of each job: to make its plan, and what its run adds
};

void Bench::print_table() const {
    std::printf("%s, %d thread%s%s\n", processor_name().c_str(), options_.threads, options_.threads > 1 ? "s" : "",
                options_.cold ? ", weights in no cache" : "");
    for (const auto &[isa, peaks] : peaks_)
        std::printf("peak: %.1f GFLOP/s (float32, %s)\n", median(peaks), to_string(isa));
    std::printf("%-24s %-24s %-12s %10s %7s %9s %6s  %s\n", "layer", "kernel", "algorithm", "ms", "spread", "GFLOP/s",
                "peak", "problem");
    for (const Row &row : rows_) {
        if (row.job == nullptr) {
            std::printf("%-24s failed: %s\n", row.layer->name, row.error.c_str());
            continue;
        }
        const Job &job = *row.job;
        std::printf("%-24s %-24s %-12s %10.4f %6.1f%% %9.2f %5.1f%%  %s\n", row.layer->name, job.plan.kernel().target,
                    job.plan.kernel().algorithm, job.seconds() * 1e3, job.spread() * 100, gflops(job),
                    gflops(job) / peak(job) * 100, row.problem.c_str());
    }
    const Totals sum = totals();
    if (sum.seconds > 0)
        std::printf("%zu layers, %zu problems: %.4f ms, %.3f GFLOP, %.2f GFLOP/s, %.1f%% of the peak\n", rows_.size(),
                    jobs_.size(), sum.seconds * 1e3, sum.flops * 1e-9, sum.flops / sum.seconds * 1e-9,
                    sum.seconds_at_peak / sum.seconds * 100);
    const auto print_in_a_row = [&](const char *how, double seconds) {
        if (seconds > 0)
            std::printf("all in a row, %s: %.4f ms; beside the sum of each by itself %+.2f us a layer\n", how,
                        seconds * 1e3, (seconds - sum.seconds) / in_a_row_.layers * 1e6);
    };
    print_in_a_row("queued one by one", in_a_row_.queued);
    print_in_a_row("as one CUDA graph", in_a_row_.captured);
    if (!jobs_.empty())
        std::printf("packing all weights: %.2f ms; making a plan: %.1f us; a plan's run adds %.0f ns to its kernel's\n",
                    pack_seconds() * 1e3, median(plan_seconds_) * 1e6, median(check_seconds_) * 1e9);
}

void Bench::print_balance() const {
    if (pieces_.empty()) return;
    std::printf("simulated workers: the largest share of the work over the mean one, and how much faster than one\n");
    std::printf("%-24s %10s %-20s", "layer", "ms", "pieces");
    for (const int workers : options_.workers) std::printf(" %7d %7s", workers, "faster");
    std::printf("\n");
    for (const Row &row : rows_) {
        const auto found = pieces_.find(row.job);
        if (found == pieces_.end()) continue;
        const PieceTimes &first = found->second.front();
        std::printf("%-24s %10.4f %-20s", row.layer->name, first.seconds() * 1e3, counts_text(first, "+").c_str());
        for (const PieceTimes &times : found->second) {
            const Balance balance = simulate(times);
            std::printf(" %7.3f %7.2f", balance.largest_share, balance.speed_up);
        }
        std::printf("\n");
    }
}

std::string Bench::json() const {
    std::vector<std::string> rows, features;
    for (const std::string &name : feature_names(kiln_cpu_features())) features.push_back(json_text(name));
    for (const Row &row : rows_) {
        JsonObject object;
        object.text("layer", row.layer->name).text("problem", row.problem);
        if (row.job == nullptr) {
            rows.push_back(object.text("error", row.error).str());
            continue;
        }
        const Job &job = *row.job;
        object.text("kernel", job.plan.kernel().target).text("algorithm", job.plan.kernel().algorithm);
        object.text("schedule", job.plan.kernel().schedule)
            .number("ms", job.seconds() * 1e3)
            .number("spread", job.spread());
        object.number("gflop", job.flops() * 1e-9)
            .number("gflops", gflops(job))
            .number("peak_share", gflops(job) / peak(job))
            .number("pack_ms", job.pack_seconds * 1e3);
        if (const auto pieces = pieces_.find(&job); pieces != pieces_.end())
            object.number("in_pieces_ms", pieces->second.front().seconds() * 1e3)
                .raw("pieces", pieces_json(pieces->second.front()))
                .raw("balance", balance_json(pieces->second));
        rows.push_back(object.str());
    }
    JsonObject machine, peaks, total;
    machine.text("processor", processor_name())
        .raw("features", json_list(features))
        .number("threads", options_.threads)
        .text("caches", options_.cold ? "cold" : "warm");
    for (const auto &[isa, values] : peaks_) peaks.number(to_string(isa), median(values));
    const Totals sum = totals();
    total.number("ms", sum.seconds * 1e3)
        .number("gflop", sum.flops * 1e-9)
        .number("gflops", sum.flops / sum.seconds * 1e-9);
    total.number("peak_share", sum.seconds_at_peak / sum.seconds);
    JsonObject calls;
    if (!jobs_.empty())
        calls.number("plan_us", median(plan_seconds_) * 1e6).number("run_adds_ns", median(check_seconds_) * 1e9);
    if (in_a_row_.layers > 0) {
        JsonObject in_a_row;
        in_a_row.number("layers", in_a_row_.layers).number("queued_ms", in_a_row_.queued * 1e3);
        if (in_a_row_.captured > 0) in_a_row.number("captured_ms", in_a_row_.captured * 1e3);
        total.raw("in_a_row", in_a_row.str());
    }
    JsonObject all;
    all.raw("machine", machine.str())
        .raw("peak_gflops", peaks.str())
        .raw("rows", json_list(rows))
        .raw("total", total.str())
        .raw("calls", calls.str());
    return all.str() + '\n';
}

bool write_text(const std::string &path, const std::string &text) {
    std::FILE *file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
    if (file == nullptr) return false;
    bool ok = std::fputs(text.c_str(), file) >= 0;
    ok = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && ok;
    return ok;
}

// Returns the exit status.
int time_layers(const kiln_library &library, const Options &options, const Endings &endings, Progress *progress) {
    if (options.threads == 1) pin_to_this_cpu();
    Bench bench(library, options, endings, progress);
    bench.run();
    if (options.json_file != "-") {
        bench.print_table();
        bench.print_balance();
    }
    if (!options.json_file.empty() && !write_text(options.json_file, bench.json())) {
        std::fprintf(stderr, "%s: cannot be written\n", options.json_file.c_str());
        return 1;
    }
    return bench.all_ran() ? 0 : 1;
}

}  // namespace

int bench(const kiln_library &library, const Options &options) {
    Endings endings;
    while (true) {
        const Shared<Progress> progress;
        const std::string ending = in_own_process([&] {
            progress->status = time_layers(library, options, endings, &*progress);
            progress->done = true;
        });
        if (progress->done) return progress->status;
        const std::string why = "the program that times it " + ending;
        if (progress->layer < 0 || !endings.emplace(progress->layer, why).second) {
            std::fprintf(stderr, "the program that times the layers %s\n", ending.c_str());
            return 1;
        }
        std::fprintf(stderr, "layer %s: %s; the others are timed again without it\n",
                     library.layers[progress->layer].name, why.c_str());
    }
}

}  // namespace kiln::harness
