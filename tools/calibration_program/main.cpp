// The program that kiln calibrate starts: compiled with -DKILN_LIBRARY_HEADER='"loops.h"', which has the loops that it
// times as assembly (tools/calibrate/loops.h), and -DKILN_FEATURES=MASK, the features that they need.
//
//     PROGRAM [BYTES]...     the caches' sizes, the nearest first, in place of those that the system tells
//
// Prints a JSON object: what the processor is, how many cycles a pass of each loop takes, and each cache's rates.
#include KILN_LIBRARY_HEADER

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "harness/json.h"
#include "harness/machine/machine.h"
#include "harness/machine/timing.h"
#include "harness/tensors/buffer.h"
#include "kiln/cpu.h"

namespace {

using kiln::harness::Buffer;
using kiln::harness::json_list;
using kiln::harness::JsonObject;
using kiln::harness::now;

constexpr double loop_seconds = 0.2, cache_seconds = 0.7;  // spent on each figure
constexpr double sample_seconds = 50e-6;
constexpr double same_clock = 0.01;  // by which the clock before and after a sample may differ
constexpr size_t line_bytes = 64;
constexpr int64_t most_memory_bytes = 256 << 20;

struct Loop {
    const char *figure;
    int bits, count;
    void (*run)(void *data, long passes);
};
#define KILN_LOOP(function, figure, bits, count) {figure, bits, count, function},
constexpr Loop loops[] = {KILN_LOOPS(KILN_LOOP)};

// Whether a loop passes over data from end to end, as caches are measured by.
bool is_stream(const Loop &loop) {
    return std::strcmp(loop.figure, "read") == 0 || std::strcmp(loop.figure, "write") == 0;
}

// The loop of a figure with the widest vectors, which stand last.
const Loop &find_loop(const char *figure) {
    const Loop *found = nullptr;
    for (const Loop &loop : loops)
        if (std::strcmp(loop.figure, figure) == 0) found = &loop;
    if (found == nullptr) std::abort();  // kiln writes all of them
    return *found;
}

// Cycles a second, of additions that wait for each other.
double clock_rate() {
    static const Loop &adds = find_loop("clock");
    constexpr long passes = 1000;
    const double begin = now();
    adds.run(nullptr, passes);
    return passes * adds.count / (now() - begin);
}

// The quarter that is least disturbed, without its luckiest.
double lower_quartile(std::vector<double> values) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

// The cycles of one call of something that others may disturb: of samples between two looks at the clock, those during
// which it did not change.
template <typename Work>
double cycles_of(double seconds, const Work &work) {
    work();  // brings data near, and the processor to the clock that it runs such code at
    const double begin = now();
    work();
    const int calls = std::max(1, static_cast<int>(sample_seconds / std::max(now() - begin, 1e-9)));
    std::vector<double> steady, all;
    while (all.size() < 9 || now() - begin < seconds) {
        const double before = clock_rate(), from = now();
        for (int i = 0; i < calls; ++i) work();
        const double to = now(), after = clock_rate();
        all.push_back((to - from) * (before + after) / 2 / calls);
        if (std::abs(before - after) < same_clock * before) steady.push_back(all.back());
    }
    return lower_quartile(steady.size() < 9 ? all : steady);
}

// As cycles_of has it, of the best clock.
double gigahertz() {
    std::vector<double> periods;
    for (const double begin = now(); now() - begin < loop_seconds;) periods.push_back(1e9 / clock_rate());
    return 1 / lower_quartile(periods);
}

// The first line of a file of the system's; "" where there is none.
std::string read_line(const std::string &path) {
    char line[256] = "";
    if (std::FILE *file = std::fopen(path.c_str(), "r"); file != nullptr) {
        if (std::fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
        std::fclose(file);
    }
    line[std::strcspn(line, "\n")] = '\0';
    return line;
}

// How many processors "0-3,8" names.
int count_of(const std::string &list) {
    int count = 0;
    for (const char *at = list.c_str(); *at != '\0';) {
        char *end = nullptr;
        const long first = std::strtol(at, &end, 10);
        const long last = *end == '-' ? std::strtol(end + 1, &end, 10) : first;
        count += static_cast<int>(last - first + 1);
        at = *end == ',' ? end + 1 : end + std::strlen(end);
    }
    return std::max(count, 1);
}

struct Cache {
    int64_t bytes = 0;
    int cores = 1;  // that share it
};

// What Linux tells of the data caches of this processor, the nearest first; else what the C library knows.
std::vector<Cache> told_caches() {
    std::vector<Cache> caches;
    const std::string cpu = "/sys/devices/system/cpu/cpu" + std::to_string(sched_getcpu());
    const int threads = count_of(read_line(cpu + "/topology/thread_siblings_list"));
    for (int index = 0; index < 10; ++index) {
        const std::string folder = cpu + "/cache/index" + std::to_string(index);
        const std::string type = read_line(folder + "/type"), size = read_line(folder + "/size");
        char *unit = nullptr;
        const int64_t number = std::strtoll(size.c_str(), &unit, 10);
        if ((type != "Data" && type != "Unified") || number <= 0) continue;
        const int processors = count_of(read_line(folder + "/shared_cpu_list"));
        caches.push_back({number << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0), std::max(processors / threads, 1)});
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (caches.empty())
        for (const int name : {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE})
            if (const int64_t bytes = sysconf(name); bytes > 0) caches.push_back({bytes, 1});
#endif
    return caches;
}

// Cycles of a load that waits for the one before, of lines in an order that nothing guesses.
double latency(char *data, size_t bytes) {
    std::vector<size_t> order(bytes / line_bytes);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
    const auto line = [&](size_t i) { return reinterpret_cast<void **>(data + order[i % order.size()] * line_bytes); };
    for (size_t i = 0; i < order.size(); ++i) *line(i) = line(i + 1);
    constexpr int loads = 2000;
    void *volatile at = line(0);
    return cycles_of(cache_seconds,
                     [&] {
                         void *next = at;
                         for (int i = 0; i < loads; ++i) next = *static_cast<void **>(next);
                         at = next;
                     }) /
           loads;
}

// Bytes a cycle of a stream over so much memory, and the latency of its lines.
JsonObject rates_over(char *data, size_t bytes) {
    const auto rate = [&](const Loop &stream) {
        const long passes = static_cast<long>(bytes) / stream.count;
        return static_cast<double>(passes) * stream.count / cycles_of(cache_seconds, [&] { stream.run(data, passes); });
    };
    JsonObject result;
    result.number("read", rate(find_loop("read"))).number("write", rate(find_loop("write")));
    return result.number("latency", latency(data, bytes));
}

// Each cache by half of it, the program itself and others having the rest; memory by four times the last.
std::string measure_caches(const std::vector<Cache> &caches) {
    const int64_t last = caches.back().bytes;
    const auto beyond = static_cast<size_t>(std::max(2 * last, std::min(4 * last, most_memory_bytes)));
    const Buffer buffer = kiln::harness::allocate(beyond);
    auto *data = static_cast<char *>(buffer.get());
    std::fill_n(data, beyond, 0);
    std::vector<std::string> rows;
    for (const Cache &cache : caches)
        rows.push_back(rates_over(data, static_cast<size_t>(cache.bytes / 2))
                           .raw("bytes", std::to_string(cache.bytes))
                           .number("cores", cache.cores)
                           .str());
    return JsonObject().raw("caches", json_list(rows)).raw("memory", rates_over(data, beyond).str()).str();
}

}  // namespace

int main(int argc, char **argv) {
    kiln::harness::pin_to_this_cpu();
    if ((kiln_cpu_features() & KILN_FEATURES) != KILN_FEATURES) {
        std::fprintf(stderr, "this processor lacks what the target needs\n");
        return 1;
    }
    std::vector<Cache> caches = told_caches();
    if (argc > 1) caches.clear();
    for (int i = 1; i < argc; ++i) caches.push_back({std::atoll(argv[i]), 1});
    if (caches.empty()) {
        std::fprintf(stderr, "the system does not tell the caches' sizes: name them with --caches\n");
        return 1;
    }
    const double load = kiln::harness::load();  // of others, so far
    std::vector<std::string> rows;
    const Buffer near = kiln::harness::allocate(4096);
    std::fill_n(static_cast<char *>(near.get()), 4096, 0);
    for (const Loop &loop : loops) {
        if (loop.bits == 0 || is_stream(loop)) continue;
        constexpr long passes = 500;
        const double cycles = cycles_of(loop_seconds, [&] { loop.run(near.get(), passes); });
        rows.push_back(JsonObject()
                           .text("figure", loop.figure)
                           .number("bits", loop.bits)
                           .number("cycles", cycles / passes / loop.count)
                           .str());
    }
    JsonObject result;
    result.text("processor", kiln::harness::processor_name()).number("load", load).number("gigahertz", gigahertz());
    result.raw("loops", json_list(rows)).raw("memory_levels", measure_caches(caches));
    std::printf("%s\n", result.str().c_str());
    return 0;
}
