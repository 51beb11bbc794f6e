// tune: candidates for one problem, each checked, then timed in alternation with the kernels it is to beat.
#include <cmath>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "harness/check.h"
#include "harness/guard.h"
#include "harness/harness.h"
#include "harness/json.h"
#include "harness/machine.h"
#include "harness/timing.h"
#include "kiln/cpu.h"

namespace kiln::harness {
namespace {

// A candidate so much slower than a reference, in its best round of two, is not looked at further.
constexpr double hopeless = 1.3;

constexpr double calibration_seconds = 0.02;

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

class Candidates {
  public:
    Candidates(const kiln_library &library, const Options &options)
        : library_(library), options_(options), team_(options.thorough ? 2 : 1) {}

    Status prepare_all() {
        Problem problem;
        KILN_RETURN_IF_ERROR(parse(library_.kernels[0].problem, &problem));
        subject_.problem = problem;
        subject_.weight_strides = dense_weight_strides(problem);
        subject_.tensors = random_tensors(problem, options_.seed, Offsets::hostile);
        if (!exchange(options_.expected, false, subject_.expected)) {
            KILN_RETURN_IF_ERROR(compute_expected(subject_));
            // Where it cannot be kept it is computed again by the next program; nothing half-written stays.
            if (!options_.expected.empty() && !exchange(options_.expected, true, subject_.expected))
                std::remove(options_.expected.c_str());
        }
        for (int k = 0; k < references(); ++k) {
            jobs_.emplace_back();
            if (k >= options_.from) continue;  // checked below, then prepared
            KILN_RETURN_IF_ERROR(prepare_kernel(k, &jobs_.back()));
        }
        return {};
    }

    void look_at(int k) {
        const kiln_kernel &kernel = library_.kernels[k];
        print_line(
            JsonObject().number("begin", k).text("algorithm", kernel.algorithm).text("schedule", kernel.schedule));
        JsonObject line;
        line.number("kernel", k);
        Job own;
        Job &job = k < references() ? jobs_[k] : own;
        const std::string verdict = check(k, &job);
        line.text("verdict", verdict);
        if (verdict == "ok") {
            time(k, job);
            std::vector<std::string> beside;
            for (int r = 0; r < std::min(k, references()); ++r) beside.push_back(list(jobs_[r].times));
            line.raw("seconds", list(job.times)).raw("beside", json_list(beside));
        }
        print_line(line);
    }

  private:
    int references() const { return std::min(options_.references, library_.kernel_count); }

    Status prepare_kernel(int k, Job *job) {
        Plan plan;
        KILN_RETURN_IF_ERROR(Plan::create(library_.kernels[k], subject_.problem, &plan));
        KILN_RETURN_IF_ERROR(prepare(plan, options_.seed, nullptr, job));
        return options_.cold ? make_cold(job) : Status();
    }

    std::string check(int k, Job *job) {
        const kiln_kernel &kernel = library_.kernels[k];
        if ((kernel.features & ~kiln_cpu_features()) != 0) return "failed: this processor lacks what the target needs";
        Plan plan;
        if (const Status status = Plan::create(kernel, subject_.problem, &plan); !status.ok())
            return std::string("failed: ") + status.message();
        Row row;
        check_kernel(subject_, plan, nullptr, team_, options_.thorough, &row);
        if (row.verdict != "ok") return row.verdict;
        Status status;
        const std::string fault = catch_faults("its run", [&] { status = prepare_kernel(k, job); });
        if (!fault.empty()) return "failed: " + fault;
        return status.ok() ? "ok" : std::string("failed: ") + status.message();
    }

    // Rounds of all references and the kernel, one after the other.
    void time(int k, Job &job) {
        const int beside = std::min(k, references());
        for (int r = 0; r < beside; ++r) jobs_[r].times.clear();
        job.times.clear();
        for (int round = 0; round < options_.rounds; ++round) {
            for (int r = 0; r < beside; ++r) jobs_[r].times.push_back(time_calls(jobs_[r], options_.seconds));
            job.times.push_back(time_calls(job, options_.seconds));
            if (round != 1 || beside == 0) continue;
            double fastest = INFINITY;
            for (int r = 0; r < beside; ++r) fastest = std::min({fastest, jobs_[r].times[0], jobs_[r].times[1]});
            if (std::min(job.times[0], job.times[1]) > hopeless * fastest) break;
        }
    }

    const kiln_library &library_;
    const Options &options_;
    ThreadTeam team_;
    Subject subject_{};
    std::deque<Job> jobs_;  // the references'
};

}  // namespace

int tune(const kiln_library &library, const Options &options) {
    pin_to_this_cpu();
    std::vector<std::string> features;
    for (const std::string &name : feature_names(kiln_cpu_features())) features.push_back(json_text(name));
    JsonObject machine;
    machine.text("processor", processor_name()).raw("features", json_list(features)).text("host", host_name());
    machine.number("gflops", measure_peak(isa_of(kiln_cpu_features()), calibration_seconds)).number("load", load());
    print_line(JsonObject().raw("machine", machine.str()));
    Candidates candidates(library, options);
    if (const Status status = candidates.prepare_all(); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.message());
        return 1;
    }
    for (int k = options.from; k < library.kernel_count; ++k) candidates.look_at(k);
    print_line(JsonObject().number("end", library.kernel_count));
    return 0;
}

}  // namespace kiln::harness
