#include "harness/machine/timing.h"

#include <sched.h>

#include <cmath>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "harness/machine/machine.h"

namespace kiln::harness {
namespace {

// Calls are timed in groups that take about this long: on a GPU, until waiting for the last one counts for little.
constexpr double sample_seconds = 50e-6, gpu_sample_seconds = 5e-3;

// By a GPU's own clock: calls that follow each other, and how often those are timed.
constexpr int gpu_calls = 20, gpu_samples = 50;

constexpr int64_t line_bytes = 64;  // or more, of a cache

// Takes memory out of all caches. Returns false where this processor lets no program do so.
bool evict(const void *data, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += line_bytes) {
        const char *line = static_cast<const char *>(data) + at;
#if defined(__x86_64__)
        _mm_clflush(line);
#elif defined(__aarch64__)
        asm volatile("dc civac, %0" ::"r"(line) : "memory");
#else
        (void)line;
        return false;
#endif
    }
#if defined(__x86_64__)
    _mm_mfence();
#elif defined(__aarch64__)
    asm volatile("dsb sy" ::: "memory");
#endif
    return true;
}

}  // namespace

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Status prepare(const Plan &plan, uint64_t seed, const kiln_threads *threads, Job *job) {
    job->plan = plan;
    const Problem &p = job->plan.problem();
    const Tensors drawn = random_tensors(p, seed, Offsets::ordinary);
    job->workspace = allocate(job->plan.workspace_bytes(threads));
    job->packed = allocate(job->plan.packed_bytes());
    Pointers pointers{};
    const auto place = [&](Tensor tensor) {
        Buffer &buffer = job->tensors[static_cast<size_t>(tensor)];
        buffer = allocate(bytes_of(p, tensor));
        pointers[static_cast<size_t>(tensor)] = buffer.get();
    };
    for (const Tensor tensor : all_inputs) {
        place(tensor);
        std::copy(drawn[tensor].begin(), drawn[tensor].end(),
                  static_cast<char *>(pointers[static_cast<size_t>(tensor)]));
    }
    place(Tensor::y);
    RunArguments &arguments = job->arguments = run_arguments(p, pointers);
    arguments.packed_weights = job->packed.get();
    arguments.workspace = job->workspace.get();
    arguments.workspace_bytes = job->plan.workspace_bytes(threads);
    arguments.threads = threads;
    const auto *zero_points = static_cast<const int32_t *>(pointers[static_cast<size_t>(Tensor::zero_points)]);
    const double begin = now();
    KILN_RETURN_IF_ERROR(job->plan.pack(drawn[Tensor::w].data(), dense_weight_strides(p).data(), job->packed.get(),
                                        p.w_zero_points ? zero_points : nullptr));
    job->pack_seconds = now() - begin;
    if (job->plan.kernel().gpu == kiln_gpu_none) return job->plan.run(arguments);
    if (gpu_support.place == nullptr) return Status::unsupported("this program was built without support for GPUs");
    arguments.threads = nullptr;
    KILN_RETURN_IF_ERROR(gpu_support.place(job->plan, arguments, &job->on_gpu));
    KILN_RETURN_IF_ERROR(job->on_gpu->start());
    return job->on_gpu->finish();
}

Status make_cold(Job *job) {
    if (job->run_embedded != nullptr)
        return Status::unsupported("weights that are part of the library are not taken out of the caches");
    if (job->on_gpu != nullptr || !evict(job->packed.get(), job->plan.packed_bytes()))
        return Status::unsupported("the caches of this processor cannot be emptied of the weights");
    job->cold = true;
    return {};
}

double time_checks(const Job &job) {
    if (job.on_gpu != nullptr) return 0;
    kiln_kernel nothing = job.plan.kernel();
    nothing.run = [](auto...) -> int32_t { return kiln_ok; };
    Plan plan;
    if (!Plan::create(nothing, job.plan.problem(), &plan).ok()) return 0;
    return time_repeatedly([&] { (void)plan.run(job.arguments).ok(); });
}

double time_calls(const Job &job, double budget) {
    const double begin = now();
    bool succeeds = job.run() && job.finish();
    const double estimate = std::max(now() - begin, 1e-9);
    if (budget <= 0 && !job.cold) return succeeds ? estimate : NAN;
    if (job.on_gpu != nullptr && succeeds) {
        const std::vector<GpuRun *> runs(gpu_calls, job.on_gpu.get());
        const std::vector<double> seconds = gpu_support.time(job.plan.kernel().gpu, runs, gpu_samples);
        if (!seconds.empty()) return median(seconds) / gpu_calls;
    }
    const double group = job.on_gpu != nullptr ? gpu_sample_seconds : sample_seconds;
    const int calls = job.cold ? 1 : std::max(1, static_cast<int>(group / estimate));
    double best = INFINITY;
    for (int sample = 0; sample < 3 || now() - begin < budget; ++sample) {
        if (job.cold) evict(job.packed.get(), job.plan.packed_bytes());
        const double start = now();
        for (int i = 0; i < calls; ++i) succeeds = job.run() && succeeds;
        succeeds = job.finish() && succeeds;
        best = std::min(best, (now() - start) / calls);
    }
    return succeeds ? best : NAN;
}

void pin_to_this_cpu() {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
}

void pin_to_cpu(int32_t number) {
    cpu_set_t allowed, set;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    CPU_ZERO(&set);
    int left = number % CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &allowed) && left-- == 0) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

}  // namespace kiln::harness
