// verify: every kernel of a library against the reference, element by element, each within its algorithm's error bound.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "harness/data.h"
#include "harness/guard.h"
#include "harness/harness.h"
#include "harness/json.h"
#include "harness/machine.h"
#include "harness/threads.h"
#include "kiln/cpu.h"
#include "kiln/plan.h"
#include "reference/error_bound.h"
#include "reference/reference.h"

namespace kiln::harness {
namespace {

// What was found out about one kernel on one problem.
struct Row {
    std::string kernel, algorithm, schedule;
    bool measured = false;  // whether the numbers mean anything
    double max_error = 0;   // the largest of all elements
    double bound = 0;       // of the element that comes nearest to its bound, or is farthest beyond it
    double ratio = 0;       // that element's error over its bound
    std::string verdict;    // "ok", "failed: why", "skipped: why"
};

bool starts_with(const std::string &text, const char *prefix) {
    return text.rfind(prefix, 0) == 0;
}

// A problem with its tensors and their value.
struct Subject {
    Problem problem;
    const int64_t *weight_strides;
    Tensors tensors;
    reference::Result expected;
};

Status compute_expected(Subject &subject) {
    reference::Tensors inputs;
    inputs.x = subject.tensors.x.data();
    inputs.w = subject.tensors.w.data();
    inputs.weight_strides = subject.weight_strides;
    inputs.bias = subject.tensors.bias.data();
    inputs.residual = subject.tensors.residual.data();
    return reference::compute(subject.problem, inputs, &subject.expected, 2);
}

// "[batch][channel][spatial...]" of an element of y.
std::string coordinates(const Problem &p, int64_t index) {
    const int64_t points = p.out_points(), channels = p.out_channels;
    const bool ncx = p.y_layout == Layout::ncx;
    int64_t point = ncx ? index % points : index / channels % points;
    const int64_t channel = ncx ? index / points % channels : index % channels;
    std::string text;
    for (int axis = p.rank - 1; axis >= 0; --axis) {
        text = '[' + std::to_string(point % p.out[axis]) + ']' + text;
        point /= p.out[axis];
    }
    return '[' + std::to_string(index / points / channels) + "][" + std::to_string(channel) + ']' + text;
}

// Compares every element of y. Returns "ok" or "failed: why", and keeps the worst of what was seen in `row`.
std::string compare(const Subject &subject, const void *y, const reference::ErrorBound &error_bound, Row *row) {
    const Problem &p = subject.problem;
    int64_t wrong = 0, worst = 0;
    double worst_ratio = 0;
    for (int64_t i = 0; i < p.y_elements(); ++i) {
        const double expected = subject.expected.y[i];
        const double bound = error_bound.at(expected, subject.expected.magnitude[i]);
        double error = std::abs(load(p.y_type, y, i) - expected);
        if (std::isnan(error)) error = INFINITY;
        if (error > bound) ++wrong;
        if (error / bound > worst_ratio) {
            worst_ratio = error / bound;
            worst = i;
        }
        if (!row->measured || error / bound > row->ratio) {
            row->ratio = error / bound;
            row->bound = bound;
        }
        row->max_error = std::max(row->max_error, error);
        row->measured = true;
    }
    if (wrong == 0) return "ok";
    const double got = load(p.y_type, y, worst);
    char text[256];
    std::snprintf(text, sizeof text, "failed: y%s is %.9g, expected %.9g; %lld of %lld elements are out of bounds",
                  coordinates(p, worst).c_str(), std::isnan(got) ? NAN : got, subject.expected.y[worst],
                  static_cast<long long>(wrong), static_cast<long long>(p.y_elements()));
    return text;
}

// One way to run a kernel.
struct Mode {
    const char *name;
    GuardedBuffer::Side side;
    unsigned char garbage;  // what every byte of workspace holds at the start
    const kiln_threads *threads;
};

// Packs and runs a kernel once between guard pages, and compares. `run_embedded` is called in place of the plan's
// kernel where it is not null. Returns the verdict.
std::string run_guarded(const Subject &subject, const Plan &plan, kiln_run_function run_embedded, const Mode &mode,
                        const reference::ErrorBound &error_bound, Row *row) {
    const Problem &p = subject.problem;
    const auto x_align = static_cast<size_t>(size_of(p.x_type)), w_align = static_cast<size_t>(size_of(p.w_type));
    const auto y_align = static_cast<size_t>(size_of(p.y_type));
    const unsigned char nan = 0xff;  // in every byte: so is an element that a kernel leaves out
    const GuardedBuffer x("x", subject.tensors.x, mode.side, x_align), w("w", subject.tensors.w, mode.side, w_align);
    const GuardedBuffer bias("bias", subject.tensors.bias, mode.side, y_align);
    const GuardedBuffer residual("residual", subject.tensors.residual, mode.side, y_align);
    const GuardedBuffer y("y", y_bytes(p), mode.side, y_align, nan);
    const int64_t workspace_bytes = plan.workspace_bytes(mode.threads);
    const GuardedBuffer workspace("the workspace", workspace_bytes, mode.side, KILN_ALIGNMENT, mode.garbage);
    GuardedBuffer packed("the packed weights", run_embedded ? 0 : plan.packed_bytes(), mode.side, KILN_ALIGNMENT, nan);

    RunArguments arguments;
    arguments.x = x.data();
    arguments.packed_weights = packed.data();
    arguments.bias = p.bias ? bias.data() : nullptr;
    arguments.residual = p.residual ? residual.data() : nullptr;
    arguments.y = y.data();
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace_bytes;
    arguments.threads = mode.threads;
    Status status;
    int32_t code = kiln_ok;
    const std::string fault = catch_faults(std::string(mode.name) + " of " + print(p).c_str(), [&] {
        if (run_embedded != nullptr) {
            code = run_embedded(x.data(), nullptr, arguments.bias, arguments.residual, nullptr, nullptr, nullptr, y.data(),
                                nullptr, workspace.data(), mode.threads);
            return;
        }
        status = plan.pack(w.data(), subject.weight_strides, packed.data());
        packed.make_read_only();
        if (status.ok()) status = plan.run(arguments);
    });
    const std::string where = std::string(" (") + mode.name + ")";
    if (!fault.empty()) return "failed: " + fault + where;
    if (!status.ok()) return std::string("failed: ") + status.message() + where;
    if (code != kiln_ok) return "failed: it returned " + std::to_string(code) + where;
    for (const GuardedBuffer *buffer : {&y, &workspace, &static_cast<const GuardedBuffer &>(packed)})
        if (const std::string stray = buffer->stray_write(); !stray.empty()) return "failed: " + stray + where;
    const std::string verdict = compare(subject, y.data(), error_bound, row);
    return verdict == "ok" ? verdict : verdict + where;
}

// Runs one kernel in every mode; stops at the first that fails.
void check_kernel(const Subject &subject, const Plan &plan, kiln_run_function run_embedded, const ThreadTeam &team,
                  Row *row) {
    const reference::AlgorithmError *algorithm = reference::find_algorithm_error(plan.kernel().algorithm);
    if (algorithm == nullptr) {
        row->verdict = "failed: no error bound is stated for the algorithm " + row->algorithm;
        return;
    }
    const reference::ErrorBound error_bound(subject.problem, *algorithm);
    const Mode modes[] = {
        {"tensors before a guard page", GuardedBuffer::Side::end, 0xff, nullptr},
        {"tensors behind a guard page", GuardedBuffer::Side::begin, 0x7f, nullptr},
        {"two threads", GuardedBuffer::Side::end, 0xff, team.hook()},
    };
    for (const Mode &mode : modes) {
        row->verdict = run_guarded(subject, plan, run_embedded, mode, error_bound, row);
        if (row->verdict != "ok") return;
    }
}

Row row_of(const kiln_kernel &kernel) {
    Row row;
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
        Row row = row_of(kernel);
        Plan plan;
        if (const std::string features = missing_features(kernel); !features.empty())
            row.verdict = "skipped: this processor has no " + features;
        else if (const Status status = Plan::create(kernel, subject.problem, &plan); !status.ok())
            row.verdict = std::string("failed: ") + status.message();
        else
            check_kernel(subject, plan, nullptr, team, &row);
        rows.push_back(row);
    }
    return rows;
}

bool read_weights(const std::string &path, std::vector<char> *data) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) return false;
    const bool complete = std::fread(data->data(), 1, data->size(), file) == data->size() && std::fgetc(file) == EOF;
    std::fclose(file);
    return complete;
}

// A layer's own function with the weights embedded in it.
Row check_embedded(const kiln_library &library, const kiln_layer &layer, Subject subject, const Options &options,
                   const ThreadTeam &team) {
    Plan plan;
    if (const Status status = Plan::create(library, layer.name, &plan); !status.ok()) {
        Row row;
        row.verdict = std::string("skipped: ") + status.message();
        return row;
    }
    Row row = row_of(plan.kernel());
    const std::string path = options.weights_folder + '/' + layer.name + ".w.bin";
    if (options.weights_folder.empty())
        row.verdict = "skipped: its weights are embedded; --weights-dir names none to compare with";
    else if (!read_weights(path, &subject.tensors.w))
        row.verdict = "failed: " + path + " cannot be read, or does not hold " +
                      std::to_string(w_bytes(subject.problem)) + " bytes";
    else if (const Status status = compute_expected(subject); !status.ok())
        row.verdict = std::string("failed: ") + status.message();
    else
        check_kernel(subject, plan, layer.run_embedded, team, &row);
    return row;
}

// The rows of a layer. Kernels that were checked for an earlier layer of the same problem are not run again.
std::vector<Row> check_layer(const kiln_library &library, const kiln_layer &layer, const Options &options,
                             const ThreadTeam &team, std::map<std::string, std::vector<Row>> *done) {
    Row row;
    Subject subject{};
    subject.weight_strides = layer.weight_strides;
    Status status = parse(layer.problem, &subject.problem);
    if (!status.ok()) {
        row.verdict = std::string("failed: ") + status.message();
        return {row};
    }
    if (subject.problem.has_open_sizes()) {
        row.verdict = "skipped: it leaves sizes open";
        return {row};
    }
    std::string key = layer.problem;
    for (int i = 0; i < subject.problem.rank + 2; ++i) key += ' ' + std::to_string(layer.weight_strides[i]);
    subject.tensors = random_tensors(subject.problem, options.seed);
    std::vector<Row> &rows = (*done)[key];
    if (rows.empty()) {
        status = compute_expected(subject);
        row.verdict = std::string("failed: ") + status.message();
        rows = status.ok() ? check_kernels(library, subject, options, team) : std::vector<Row>{row};
    }
    std::vector<Row> all = rows;
    if (layer.run_embedded != nullptr) all.push_back(check_embedded(library, layer, subject, options, team));
    if (all.empty()) {
        row.verdict = "failed: the library has no kernel for it";
        all.push_back(row);
    }
    return all;
}

void print_json(const kiln_layer &layer, const Row &row, uint64_t seed) {
    const auto number = [&](double value) { return row.measured ? json_number(value) : "null"; };
    JsonObject json;
    json.text("layer", layer.name).text("problem", layer.problem).text("kernel", row.kernel);
    json.text("algorithm", row.algorithm).text("schedule", row.schedule);
    json.raw("max_error", number(row.max_error)).raw("bound", number(row.bound)).raw("ratio", number(row.ratio));
    json.raw("seed", std::to_string(seed)).text("verdict", row.verdict);
    std::printf("%s\n", json.str().c_str());
}

void print_table_head() {
    std::printf("%-24s %-20s %-12s %9s %9s %6s  %s\n", "layer", "kernel", "algorithm", "max error", "bound", "ratio",
                "verdict");
}

void print_table_row(const kiln_layer &layer, const Row &row) {
    std::printf("%-24s %-20s %-12s ", layer.name, row.kernel.c_str(), row.algorithm.c_str());
    if (row.measured)
        std::printf("%9.2e %9.2e %6.3f  ", row.max_error, row.bound, row.ratio);
    else
        std::printf("%9s %9s %6s  ", "-", "-", "-");
    std::printf("%s\n", row.verdict.c_str());
    if (row.verdict != "ok") std::printf("    %s\n", layer.problem);
}

// What all rows come to.
struct Summary {
    int layers = 0, checked = 0, failed = 0, skipped = 0, unchecked_layers = 0;
    double ratio = 0;

    void add(const std::vector<Row> &rows) {
        bool any = false;
        for (const Row &row : rows) {
            const bool is_skipped = starts_with(row.verdict, "skipped");
            any = any || !is_skipped;
            ++(is_skipped ? skipped : checked);
            if (starts_with(row.verdict, "failed")) ++failed;
            ratio = std::max(ratio, row.ratio);
        }
        ++layers;
        if (!any) ++unchecked_layers;
    }

    void print(uint64_t seed) const {
        std::printf("%d layers: %d checks, %d failed, %d skipped; largest ratio of error to bound %.3f; seed %llu\n",
                    layers, checked, failed, skipped, ratio, static_cast<unsigned long long>(seed));
    }
};

}  // namespace

int verify(const kiln_library &library, const Options &options) {
    const ThreadTeam team(2);
    std::map<std::string, std::vector<Row>> done;
    Summary summary;
    if (!options.json) print_table_head();
    for (int32_t i = 0; i < library.layer_count; ++i) {
        const kiln_layer &layer = library.layers[i];
        if (!options.wants(layer.name)) continue;
        const std::vector<Row> rows = check_layer(library, layer, options, team, &done);
        for (const Row &row : rows) {
            if (options.json)
                print_json(layer, row, options.seed);
            else
                print_table_row(layer, row);
        }
        summary.add(rows);
        std::fflush(stdout);
    }
    if (!options.json) summary.print(options.seed);
    if (summary.unchecked_layers > 0)
        std::fprintf(stderr, "%d layers were not checked at all\n", summary.unchecked_layers);
    return summary.failed > 0 || summary.unchecked_layers > 0 ? 1 : 0;
}

}  // namespace kiln::harness
