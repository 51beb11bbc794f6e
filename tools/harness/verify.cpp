// verify: every kernel of a library against the reference, element by element, each within its algorithm's error bound.
//
// The layers are checked in a process of their own, another one behind a layer whose kernel ends it: then that layer
// has failed, and no other.
#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "harness/harness.h"
#include "harness/json.h"
#include "harness/machine/machine.h"
#include "harness/machine/own_process.h"
#include "harness/machine/threads.h"
#include "harness/tensors/check.h"
#include "harness/tensors/data.h"
#include "kiln/cpu.h"
#include "kiln/plan.h"

namespace kiln::harness {
namespace {

bool starts_with(const std::string &text, const char *prefix) {
    return text.rfind(prefix, 0) == 0;
}

Row row_of(const kiln_kernel &kernel, const Problem &problem) {
    Row row;
    row.problem = print(problem).c_str();
    row.kernel = kernel.target;
    row.algorithm = kernel.algorithm;
    row.schedule = kernel.schedule;
    return row;
}

// "" or the features that this processor lacks for a kernel.
std::string missing_features(const kiln_kernel &kernel) {
    std::string names;
    for (const std::string &name : feature_names(kernel.features & ~kiln_cpu_features()))
        names += (names.empty() ? "" : ", ") + name;
    return names;
}

// Every kernel of the library that was made for the subject's problem.
std::vector<Row> check_kernels(const kiln_library &library, const Subject &subject, const Options &options,
                               const ThreadTeam &team) {
    std::vector<Row> rows;
    for (int32_t i = 0; i < library.kernel_count; ++i) {
        const kiln_kernel &kernel = library.kernels[i];
        Problem pattern;
        if (!options.kernel.empty() && options.kernel != kernel.target) continue;
        if (const Status status = parse(kernel.problem, &pattern); status.ok() && !matches(pattern, subject.problem))
            continue;
        Row row = row_of(kernel, subject.problem);
        Plan plan;
        if (const std::string features = missing_features(kernel); !features.empty())
            row.verdict = "skipped: this processor has no " + features;
        else if (const Status status = Plan::create(kernel, subject.problem, &plan); !status.ok())
            row.verdict = std::string("failed: ") + status.message();
        else
            check_kernel(subject, plan, nullptr, team, true, &row);
        rows.push_back(row);
    }
    return rows;
}

// What was read of a file: all that was wanted, or another number of bytes.
enum class FileState { missing, whole, other };

FileState read_whole(const std::string &path, std::vector<char> *data) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) return FileState::missing;
    const bool whole = std::fread(data->data(), 1, data->size(), file) == data->size() && std::fgetc(file) == EOF;
    std::fclose(file);
    return whole ? FileState::whole : FileState::other;
}

// Replaces w and the bias by the layer's own, where the folder that --weights-dir names has them. Returns "" or what is
// wrong: a file that does not fit, or is missing though the library embeds what it holds.
std::string take_own(const kiln_layer &layer, const Options &options, Subject *subject) {
    if (options.weights_folder.empty()) return "";
    const bool embedded = layer.run_embedded != nullptr;
    const std::tuple<Tensor, const char *, bool> files[] = {{Tensor::w, ".w.bin", embedded},
                                                            {Tensor::bias, ".b.bin", layer.bias_embedded != 0}};
    for (const auto &[tensor, ending, needed] : files) {
        if (!has(subject->problem, tensor)) continue;
        const std::string path = options.weights_folder + '/' + layer.name + ending;
        const FileState state = read_whole(path, &subject->tensors[tensor]);
        if (state == FileState::other || (state == FileState::missing && needed))
            return path + " cannot be read, or does not hold " + std::to_string(bytes_of(subject->problem, tensor)) +
                   " bytes";
        subject->own = subject->own || state == FileState::whole;
    }
    return "";
}

// A layer's own function with the weights, and perhaps the bias, embedded in it.
Row check_embedded(const kiln_library &library, const kiln_layer &layer, const Subject &subject, const Options &options,
                   const ThreadTeam &team) {
    Plan plan;
    if (const Status status = Plan::create(library, layer.name, &plan); !status.ok()) {
        Row row;
        row.verdict = std::string("skipped: ") + status.message();
        return row;
    }
    Row row = row_of(plan.kernel(), subject.problem);
    if (options.weights_folder.empty())
        row.verdict = "skipped: its weights are embedded; --weights-dir names none to compare with";
    else
        check_kernel(subject, plan, &layer, team, true, &row);
    return row;
}

// Whether a problem leaves a size of its filter open: then a layer says no strides for it.
bool has_open_filter(const Problem &p) {
    const auto begin = p.kernel.begin();
    return p.in_channels == open_size || p.out_channels == open_size || p.groups == open_size ||
           std::find(begin, begin + p.rank, open_size) != begin + p.rank;
}

std::vector<char> raw(const void *data, size_t bytes) {
    const auto *begin = static_cast<const char *>(data);
    return {begin, begin + bytes};
}

// A problem of a layer with random tensors, but for the scales and zero points that the layer itself says.
Subject make_subject(const kiln_layer &layer, const Problem &problem, bool own_strides, uint64_t seed) {
    Subject subject{};
    subject.problem = problem;
    subject.weight_strides = own_strides
                                 ? std::vector<int64_t>(layer.weight_strides, layer.weight_strides + problem.rank + 2)
                                 : dense_weight_strides(problem);
    subject.tensors = random_tensors(problem, seed, Offsets::hostile);
    const std::pair<Tensor, const void *> own[] = {{Tensor::scale, layer.scale},
                                                   {Tensor::zero_points, layer.zero_points}};
    for (const auto &[tensor, data] : own)
        if (data != nullptr && has(problem, tensor)) subject.tensors[tensor] = raw(data, bytes_of(problem, tensor));
    return subject;
}

// The problems to check a layer with: its own, or several that it leaves open, drawn and said.
std::vector<Problem> problems_of(const kiln_layer &layer, const Problem &pattern, const Options &options) {
    if (!pattern.has_open_sizes()) return {pattern};
    std::vector<Problem> problems;
    for (int i = 0; i < options.draws; ++i)
        problems.push_back(random_problem(pattern, draw_seed(options, i), Sizes::small));
    append_sizes(layer.name, pattern, options, problems);
    return problems;
}

// A row that stands for a whole layer or problem.
Row row_of(const std::string &problem, const std::string &verdict) {
    Row row;
    row.problem = problem;
    row.verdict = verdict;
    return row;
}

using Done = std::map<std::string, std::vector<Row>>;

// The rows of one problem of a layer. Kernels that were checked for an earlier layer of the same problem are not run
// again.
std::vector<Row> check_problem(const kiln_library &library, const kiln_layer &layer, const Problem &problem,
                               bool own_strides, const Options &options, const ThreadTeam &team, Done *done) {
    Subject subject = make_subject(layer, problem, own_strides, options.seed);
    const std::string text = print(problem).c_str();
    std::string key = text;
    for (const int64_t stride : subject.weight_strides) key += ' ' + std::to_string(stride);
    if (const std::string wrong = take_own(layer, options, &subject); !wrong.empty())
        return {row_of(text, "failed: " + wrong)};
    if (layer.scale != nullptr || layer.zero_points != nullptr || subject.own) key += std::string(" ") + layer.name;
    const auto [at, is_new] = done->try_emplace(key);
    if (is_new) {
        const Status status = compute_expected(subject);
        if (!status.ok()) return at->second = {row_of(text, std::string("failed: ") + status.message())};
        at->second = check_kernels(library, subject, options, team);
    }
    std::vector<Row> rows = at->second;
    if (layer.run_embedded != nullptr) rows.push_back(check_embedded(library, layer, subject, options, team));
    if (rows.empty()) rows.push_back(row_of(text, "failed: the library has no kernel for it"));
    return rows;
}

std::vector<Row> check_layer(const kiln_library &library, const kiln_layer &layer, const Options &options,
                             const ThreadTeam &team, Done *done) {
    Problem pattern;
    if (const Status status = parse(layer.problem, &pattern); !status.ok())
        return {row_of(layer.problem, std::string("failed: ") + status.message())};
    const bool own_strides = !has_open_filter(pattern);
    std::vector<Row> rows;
    for (const Problem &problem : problems_of(layer, pattern, options)) {
        const std::vector<Row> more = check_problem(library, layer, problem, own_strides, options, team, done);
        rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
}

void print_json(const kiln_layer &layer, const Row &row, uint64_t seed) {
    const auto number = [&](double value) { return row.measured ? json_number(value) : "null"; };
    JsonObject json;
    json.text("layer", layer.name).text("problem", row.problem).text("kernel", row.kernel);
    json.text("algorithm", row.algorithm).text("schedule", row.schedule);
    json.raw("max_error", number(row.max_error)).raw("bound", number(row.bound)).raw("ratio", number(row.ratio));
    json.raw("bound_share", number(row.share)).raw("loose", is_loose(row) ? "true" : "false");
    json.raw("seed", std::to_string(seed)).text("verdict", row.verdict);
    std::printf("%s\n", json.str().c_str());
}

void print_table_head() {
    std::printf("%-24s %-24s %-12s %9s %9s %6s  %s\n", "layer", "kernel", "algorithm", "max error", "bound", "ratio",
                "verdict");
}

void print_table_row(const kiln_layer &layer, const Row &row) {
    std::printf("%-24s %-24s %-12s ", layer.name, row.kernel.c_str(), row.algorithm.c_str());
    if (row.measured)
        std::printf("%9.2e %9.2e %6.3f  ", row.max_error, row.bound, row.ratio);
    else
        std::printf("%9s %9s %6s  ", "-", "-", "-");
    std::printf("%s", row.verdict.c_str());
    if (is_loose(row)) std::printf(" (loose: the bound is %.1f%% of the largest |y|)", 100 * row.share);
    std::printf("\n");
    if (row.verdict != "ok" || row.problem != layer.problem) std::printf("    %s\n", row.problem.c_str());
}

// What all rows come to.
struct Summary {
    int layers = 0, checked = 0, failed = 0, skipped = 0, unchecked_layers = 0, loose = 0;
    double ratio = 0;

    void add(const std::vector<Row> &rows) {
        bool any = false;
        for (const Row &row : rows) {
            const bool is_skipped = starts_with(row.verdict, "skipped");
            any = any || !is_skipped;
            ++(is_skipped ? skipped : checked);
            if (starts_with(row.verdict, "failed")) ++failed;
            if (is_loose(row)) ++loose;
            ratio = std::max(ratio, row.ratio);
        }
        ++layers;
        if (!any) ++unchecked_layers;
    }

    void print(uint64_t seed) const {
        std::printf("%d layers: %d checks, %d failed, %d skipped; largest ratio of error to bound %.3f; seed %llu\n",
                    layers, checked, failed, skipped, ratio, static_cast<unsigned long long>(seed));
        if (loose > 0)
            std::printf("%d bounds are loose: an error of a hundredth of the largest |y| would pass\n", loose);
    }
};

// How far the processes that check layers got, together.
struct Progress {
    int32_t layer = 0;  // the next
    Summary summary;
};

void report(const kiln_layer &layer, const std::vector<Row> &rows, const Options &options, Progress *progress) {
    for (const Row &row : rows) {
        if (options.json)
            print_json(layer, row, options.seed);
        else
            print_table_row(layer, row);
    }
    progress->summary.add(rows);
    std::fflush(stdout);
}

void check_layers(const kiln_library &library, const Options &options, Progress *progress) {
    const ThreadTeam team(2);
    Done done;
    for (; progress->layer < library.layer_count; ++progress->layer) {
        const kiln_layer &layer = library.layers[progress->layer];
        if (options.wants(layer.name))
            report(layer, check_layer(library, layer, options, team, &done), options, progress);
    }
}

}  // namespace

int verify(const kiln_library &library, const Options &options) {
    const Shared<Progress> progress;
    if (!options.json) print_table_head();
    while (progress->layer < library.layer_count) {
        const std::string ending = in_own_process([&] { check_layers(library, options, &*progress); });
        if (progress->layer == library.layer_count) break;
        const kiln_layer &layer = library.layers[progress->layer++];
        report(layer, {row_of(layer.problem, "failed: the program that checks it " + ending)}, options, &*progress);
    }
    const Summary &summary = progress->summary;
    if (!options.json) summary.print(options.seed);
    if (summary.unchecked_layers > 0)
        std::fprintf(stderr, "%d layers were not checked at all\n", summary.unchecked_layers);
    return summary.failed > 0 || summary.unchecked_layers > 0 ? 1 : 0;
}

}  // namespace kiln::harness
