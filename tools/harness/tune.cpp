// tune: candidates for one problem, each checked, then timed in alternation with the kernels it is to beat.
#include <cmath>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "harness/gpu.h"
#include "harness/harness.h"
#include "harness/json.h"
#include "harness/machine/machine.h"
#include "harness/machine/timing.h"
#include "harness/tensors/check.h"
#include "harness/tensors/guard.h"
#include "kiln/cpu.h"

namespace kiln::harness {
namespace {

// A candidate so much slower than a reference, in its best round of two, is not looked at further.
constexpr double hopeless = 1.3;

constexpr double calibration_seconds = 0.02;
constexpr int usual_rounds = 7;

void print_line(const JsonObject &line) {
    std::printf("%s\n", line.str().c_str());
    std::fflush(stdout);
}

std::string list(const std::vector<double> &values) {
    std::vector<std::string> items;
    for (const double value : values) items.push_back(json_number(value));
    return json_list(items);
}

// Vectors as files keep them: their size, then their elements.
bool exchange(std::FILE *file, bool write, std::vector<double> &values) {
    uint64_t size = values.size();
    const auto transfer = [&](void *data, size_t bytes, size_t count) {
        return (write ? std::fwrite(data, bytes, count, file) : std::fread(data, bytes, count, file)) == count;
    };
    if (!transfer(&size, sizeof size, 1)) return false;
    if (!write) values.resize(size);
    return transfer(values.data(), sizeof(double), size);
}

bool exchange(const std::string &path, bool write, reference::Result &result) {
    std::FILE *file = path.empty() ? nullptr : std::fopen(path.c_str(), write ? "wb" : "rb");
    if (file == nullptr) return false;
    bool ok = true;
    for (std::vector<double> *values : {&result.y, &result.magnitude, &result.interpolation})
        ok = ok && exchange(file, write, *values);
    return std::fclose(file) == 0 && ok;
}

// A kernel with what a call of it takes at each size.
struct Timed {
    std::deque<Job> jobs;
    std::vector<double> times;  // of each round, the geometric mean over the sizes

    void time_round(double seconds) {
        double logarithms = 0;
        for (Job &job : jobs) {
            job.times.push_back(time_calls(job, seconds));
            logarithms += std::log(job.times.back());
        }
        times.push_back(std::exp(logarithms / static_cast<double>(jobs.size())));
    }

    void forget_times() {
        times.clear();
        for (Job &job : jobs) job.times.clear();
    }
};

// [median time, median ratio to the reference's time] of each size.
std::string list_sizes(const Timed &timed, const Timed &reference) {
    std::vector<std::string> sizes;
    for (size_t s = 0; s < timed.jobs.size(); ++s) {
        const std::vector<double> &times = timed.jobs[s].times, &beside = reference.jobs[s].times;
        std::vector<double> ratios;
        for (size_t round = 0; round < times.size(); ++round) ratios.push_back(times[round] / beside[round]);
        sizes.push_back(list({median(times), median(ratios)}));
    }
    return json_list(sizes);
}

class Candidates {
  public:
    Candidates(const kiln_library &library, const Options &options)
        : library_(library), options_(options), team_(options.thorough ? 2 : 1) {}

    Status prepare_all() {
        std::vector<std::string> sizes = options_.sizes;
        if (sizes.empty()) sizes.emplace_back(library_.kernels[0].problem);
        for (size_t s = 0; s < sizes.size(); ++s) {
            const std::string number = options_.sizes.empty() ? "" : "." + std::to_string(s);
            KILN_RETURN_IF_ERROR(
                prepare_subject(sizes[s], options_.expected.empty() ? "" : options_.expected + number));
        }
        for (int k = 0; k < references(); ++k) {
            references_.emplace_back();
            if (k >= options_.from) continue;  // checked below, then prepared
            for (const Subject &subject : subjects_)
                KILN_RETURN_IF_ERROR(prepare_kernel(k, subject, &references_.back()));
        }
        return {};
    }

    void look_at(int k) {
        const kiln_kernel &kernel = library_.kernels[k];
        print_line(
            JsonObject().number("begin", k).text("algorithm", kernel.algorithm).text("schedule", kernel.schedule));
        JsonObject line;
        line.number("kernel", k);
        Timed own;
        Timed &timed = k < references() ? references_[k] : own;
        const std::string verdict = check(k, &timed);
        line.text("verdict", verdict);
        if (verdict == "ok") {
            time(k, timed);
            std::vector<std::string> beside;
            for (int r = 0; r < std::min(k, references()); ++r) beside.push_back(list(references_[r].times));
            line.raw("seconds", list(timed.times)).raw("beside", json_list(beside));
            if (!options_.sizes.empty()) line.raw("sizes", list_sizes(timed, references_[0]));
        }
        print_line(line);
    }

  private:
    int rounds() const { return options_.rounds > 0 ? options_.rounds : usual_rounds; }
    int references() const { return std::min(options_.references, library_.kernel_count); }

    // The results of the reference are read from `expected`, or kept there; "": nowhere.
    Status prepare_subject(const std::string &text, const std::string &expected) {
        Problem problem;
        KILN_RETURN_IF_ERROR(parse(text, &problem));
        Subject &subject = subjects_.emplace_back();
        subject.problem = problem;
        subject.weight_strides = dense_weight_strides(problem);
        subject.tensors = random_tensors(problem, options_.seed, Offsets::hostile);
        if (!exchange(expected, false, subject.expected)) {
            KILN_RETURN_IF_ERROR(compute_expected(subject));
            // Where it cannot be kept it is computed again by the next program; nothing half-written stays.
            if (!expected.empty() && !exchange(expected, true, subject.expected)) std::remove(expected.c_str());
        }
        return {};
    }

    Status prepare_kernel(int k, const Subject &subject, Timed *timed) {
        Plan plan;
        KILN_RETURN_IF_ERROR(Plan::create(library_.kernels[k], subject.problem, &plan));
        Job &job = timed->jobs.emplace_back();
        KILN_RETURN_IF_ERROR(prepare(plan, options_.seed, nullptr, &job));
        return options_.cold ? make_cold(&job) : Status();
    }

    // At every size.
    std::string check(int k, Timed *timed) {
        if ((library_.kernels[k].features & ~kiln_cpu_features()) != 0)
            return "failed: this processor lacks what the target needs";
        for (const Subject &subject : subjects_)
            if (const std::string verdict = check(k, subject, timed); verdict != "ok")
                return options_.sizes.empty() ? verdict : verdict + " (at " + print(subject.problem).c_str() + ")";
        return "ok";
    }

    std::string check(int k, const Subject &subject, Timed *timed) {
        Plan plan;
        if (const Status status = Plan::create(library_.kernels[k], subject.problem, &plan); !status.ok())
            return std::string("failed: ") + status.message();
        Row row;
        check_kernel(subject, plan, nullptr, team_, options_.thorough, &row);
        if (row.verdict != "ok") return row.verdict;
        Status status;
        const std::string fault = catch_faults("its run", [&] { status = prepare_kernel(k, subject, timed); });
        if (!fault.empty()) return "failed: " + fault;
        return status.ok() ? "ok" : std::string("failed: ") + status.message();
    }

    // Rounds of all references and the kernel, one after the other.
    void time(int k, Timed &timed) {
        const int beside = std::min(k, references());
        for (int r = 0; r < beside; ++r) references_[r].forget_times();
        timed.forget_times();
        for (int round = 0; round < rounds(); ++round) {
            for (int r = 0; r < beside; ++r) references_[r].time_round(options_.seconds);
            timed.time_round(options_.seconds);
            if (round != 1 || beside == 0) continue;
            double fastest = INFINITY;
            for (int r = 0; r < beside; ++r)
                fastest = std::min({fastest, references_[r].times[0], references_[r].times[1]});
            if (std::min(timed.times[0], timed.times[1]) > hopeless * fastest) break;
        }
    }

    const kiln_library &library_;
    const Options &options_;
    ThreadTeam team_;
    std::deque<Subject> subjects_;  // one a size
    std::deque<Timed> references_;
};

// What the kernels run on: the processor, or a GPU beside it, of which nothing here measures a peak.
Status describe_machine(const kiln_library &library, std::string *description) {
    std::string name = processor_name();
    double gflops = 0;
    if (const int32_t api = library.kernels[0].gpu; api != kiln_gpu_none) {
        if (gpu_support.name == nullptr) return Status::unsupported("this program was built without support for GPUs");
        std::string gpu;
        KILN_RETURN_IF_ERROR(gpu_support.name(api, &gpu));
        name = gpu + ", on " + name;
    } else {
        gflops = measure_peak(isa_of(kiln_cpu_features()), calibration_seconds);
    }
    std::vector<std::string> features;
    for (const std::string &feature : feature_names(kiln_cpu_features())) features.push_back(json_text(feature));
    JsonObject machine;
    machine.text("processor", name).raw("features", json_list(features)).text("host", host_name());
    *description = machine.number("gflops", gflops).number("load", load()).str();
    return {};
}

}  // namespace

int tune(const kiln_library &library, const Options &options) {
    pin_to_this_cpu();
    std::string machine;
    Candidates candidates(library, options);
    Status status = describe_machine(library, &machine);
    if (status.ok()) {
        print_line(JsonObject().raw("machine", machine));
        status = candidates.prepare_all();
    }
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.message());
        return 1;
    }
    for (int k = options.from; k < library.kernel_count; ++k) candidates.look_at(k);
    print_line(JsonObject().number("end", library.kernel_count));
    return 0;
}

}  // namespace kiln::harness
