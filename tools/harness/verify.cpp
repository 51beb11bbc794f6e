// verify: every kernel of a library against the reference, element by element, each within its algorithm's error bound.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "harness/data.h"
#include "harness/guard.h"
#include "harness/harness.h"
#include "harness/json.h"
#include "harness/machine.h"
#include "harness/threads.h"
#include "kiln/cpu.h"
#include "kiln/plan.h"
#include "reference/error_bound.h"
#include "reference/numbers.h"
#include "reference/reference.h"

namespace kiln::harness {
namespace {

// What was found out about one kernel on one problem.
struct Row {
    std::string problem, kernel, algorithm, schedule;
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
    std::vector<int64_t> weight_strides;
    Tensors tensors;
    reference::Result expected;
};

Status compute_expected(Subject &subject) {
    const auto data = [&](Tensor tensor) -> const void * {
        return has(subject.problem, tensor) ? subject.tensors[tensor].data() : nullptr;
    };
    reference::Tensors inputs;
    inputs.x = data(Tensor::x);
    inputs.w = data(Tensor::w);
    inputs.weight_strides = subject.weight_strides.data();
    inputs.bias = data(Tensor::bias);
    inputs.residual = data(Tensor::residual);
    inputs.offset = data(Tensor::offset);
    inputs.mask = data(Tensor::mask);
    inputs.scale = static_cast<const float *>(data(Tensor::scale));
    inputs.zero_points = static_cast<const int32_t *>(data(Tensor::zero_points));
    return reference::compute(subject.problem, inputs, &subject.expected, 2);
}

int64_t channel_of(const Problem &p, int64_t index) {
    return (p.y_layout == Layout::ncx ? index / p.out_points() : index) % p.out_channels;
}

// Replaces each magnitude by the largest of its channel.
void take_largest_of_channels(const Problem &p, std::vector<double> &magnitude) {
    std::vector<double> largest(static_cast<size_t>(p.out_channels));
    for (int64_t i = 0; i < p.y_elements(); ++i)
        largest[channel_of(p, i)] = std::max(largest[channel_of(p, i)], magnitude[i]);
    for (int64_t i = 0; i < p.y_elements(); ++i) magnitude[i] = largest[channel_of(p, i)];
}

// "[batch][channel][spatial...]" of an element of y.
std::string coordinates(const Problem &p, int64_t index) {
    const int64_t points = p.out_points(), channels = p.out_channels;
    int64_t point = p.y_layout == Layout::ncx ? index % points : index / channels % points;
    const int64_t channel = channel_of(p, index);
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
    reference::Result expected = subject.expected;
    if (error_bound.mixes()) take_largest_of_channels(p, expected.magnitude);
    for (int64_t i = 0; i < p.y_elements(); ++i) {
        const double bound = error_bound.at(expected, i);
        double error = std::abs(reference::load(p.y_type, y, i) - expected.y[i]);
        if (std::isnan(error)) error = INFINITY;
        const double ratio = error == 0 ? 0 : error / bound;  // where y is exact, the bound is 0
        if (error > bound) ++wrong;
        if (ratio > worst_ratio) {
            worst_ratio = ratio;
            worst = i;
        }
        if (!row->measured || ratio > row->ratio) {
            row->ratio = ratio;
            row->bound = bound;
        }
        row->max_error = std::max(row->max_error, error);
        row->measured = true;
    }
    if (wrong == 0) return "ok";
    const double got = reference::load(p.y_type, y, worst);
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
    int at_once;  // how many threads run the plan at the same time, each with its own workspace and y
};

// What one run writes.
struct Output {
    GuardedBuffer y, workspace;
    Status status;

    Output(const Problem &p, int64_t workspace_bytes, const Mode &mode)
        : y("y", bytes_of(p, Tensor::y), mode.side, static_cast<size_t>(size_of(p.y_type)), 0xff),  // NaN
          workspace("the workspace", workspace_bytes, mode.side, KILN_ALIGNMENT, mode.garbage) {}
};

// A kernel between guard pages: its inputs, which are the same in every run.
class GuardedKernel {
  public:
    // `run_embedded` is called in place of the plan's kernel where it is not null.
    GuardedKernel(const Subject &subject, const Plan &plan, kiln_run_function run_embedded, const Mode &mode)
        : subject_(subject),
          plan_(plan),
          run_embedded_(run_embedded),
          mode_(mode),
          packed_("the packed weights", run_embedded ? 0 : plan.packed_bytes(), mode.side, KILN_ALIGNMENT, 0xff) {
        Pointers pointers{};
        for (const Tensor tensor : all_inputs) {
            const auto alignment = static_cast<size_t>(size_of(type_of(subject.problem, tensor)));
            inputs_.emplace_back(name_of(tensor), subject.tensors[tensor], mode.side, alignment);
            pointers[static_cast<size_t>(tensor)] = inputs_.back().data();
        }
        arguments_ = run_arguments(subject.problem, pointers);
        arguments_.packed_weights = packed_.data();
        arguments_.threads = mode.threads;
    }

    Status pack() {
        if (run_embedded_ != nullptr) return {};
        const void *zero_points = input(Tensor::zero_points);
        const Status status = plan_.pack(input(Tensor::w), subject_.weight_strides.data(), packed_.data(),
                                         static_cast<const int32_t *>(zero_points));
        packed_.make_read_only();
        return status;
    }

    Status run(const Output &output) const {
        RunArguments a = arguments_;
        a.y = output.y.data();
        a.workspace = output.workspace.data();
        a.workspace_bytes = plan_.workspace_bytes(mode_.threads);
        if (run_embedded_ == nullptr) return plan_.run(a);
        const int32_t code = run_embedded_(a.x, nullptr, a.bias, a.residual, a.offset, a.mask, a.scale, a.y, nullptr,
                                           a.workspace, a.threads);
        return code == kiln_ok ? Status() : Status::failed("it returned %d", code);
    }

    std::string stray_write() const { return packed_.stray_write(); }

  private:
    const void *input(Tensor tensor) const {
        return has(subject_.problem, tensor) ? inputs_[static_cast<size_t>(tensor)].data() : nullptr;
    }

    const Subject &subject_;
    const Plan &plan_;
    kiln_run_function run_embedded_;
    const Mode &mode_;
    std::deque<GuardedBuffer> inputs_;  // in the order of Tensor
    GuardedBuffer packed_;
    RunArguments arguments_;
};

// Packs and runs a kernel between guard pages, and compares. Returns the verdict.
std::string run_guarded(const Subject &subject, const Plan &plan, kiln_run_function run_embedded, const Mode &mode,
                        const reference::ErrorBound &error_bound, Row *row) {
    const Problem &p = subject.problem;
    GuardedKernel kernel(subject, plan, run_embedded, mode);
    std::deque<Output> outputs;
    for (int i = 0; i < mode.at_once; ++i) outputs.emplace_back(p, plan.workspace_bytes(mode.threads), mode);
    Status status;
    const std::string fault = catch_faults(std::string(mode.name) + " of " + print(p).c_str(), [&] {
        status = kernel.pack();
        if (!status.ok()) return;
        std::vector<std::thread> others;
        for (int i = 1; i < mode.at_once; ++i)
            others.emplace_back([&, i] { outputs[i].status = kernel.run(outputs[i]); });
        outputs[0].status = kernel.run(outputs[0]);
        for (std::thread &other : others) other.join();
    });
    const std::string where = std::string(" (") + mode.name + ")";
    if (!fault.empty()) return "failed: " + fault + where;
    if (!status.ok()) return std::string("failed: ") + status.message() + where;
    if (const std::string stray = kernel.stray_write(); !stray.empty()) return "failed: " + stray + where;
    for (const Output &output : outputs) {
        if (!output.status.ok()) return std::string("failed: ") + output.status.message() + where;
        for (const GuardedBuffer *buffer : {&output.y, &output.workspace})
            if (const std::string stray = buffer->stray_write(); !stray.empty()) return "failed: " + stray + where;
        if (const std::string verdict = compare(subject, output.y.data(), error_bound, row); verdict != "ok")
            return verdict + where;
    }
    return "ok";
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
        {"tensors before a guard page", GuardedBuffer::Side::end, 0xff, nullptr, 1},
        {"tensors behind a guard page", GuardedBuffer::Side::begin, 0x7f, nullptr, 1},
        {"two threads", GuardedBuffer::Side::end, 0xff, team.hook(), 1},
        {"three runs at once", GuardedBuffer::Side::end, 0xff, nullptr, 3},
    };
    for (const Mode &mode : modes) {
        row->verdict = run_guarded(subject, plan, run_embedded, mode, error_bound, row);
        if (row->verdict != "ok") return;
    }
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
    Row row = row_of(plan.kernel(), subject.problem);
    const std::string path = options.weights_folder + '/' + layer.name + ".w.bin";
    if (options.weights_folder.empty())
        row.verdict = "skipped: its weights are embedded; --weights-dir names none to compare with";
    else if (!read_weights(path, &subject.tensors[Tensor::w]))
        row.verdict = "failed: " + path + " cannot be read, or does not hold " +
                      std::to_string(bytes_of(subject.problem, Tensor::w)) + " bytes";
    else if (const Status status = compute_expected(subject); !status.ok())
        row.verdict = std::string("failed: ") + status.message();
    else
        check_kernel(subject, plan, layer.run_embedded, team, &row);
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

// The problems to check a layer with: its own, or several that it leaves open.
std::vector<Problem> problems_of(const Problem &pattern, const Options &options) {
    if (!pattern.has_open_sizes()) return {pattern};
    std::vector<Problem> problems;
    for (int i = 0; i < options.draws; ++i)
        problems.push_back(random_problem(pattern, draw_seed(options, i), Sizes::small));
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
    if (layer.scale != nullptr || layer.zero_points != nullptr) key += std::string(" ") + layer.name;
    const auto [at, is_new] = done->try_emplace(key);
    if (is_new) {
        const Status status = compute_expected(subject);
        at->second = status.ok() ? check_kernels(library, subject, options, team)
                                 : std::vector<Row>{row_of(text, std::string("failed: ") + status.message())};
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
    for (const Problem &problem : problems_of(pattern, options)) {
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
    if (row.verdict != "ok" || row.problem != layer.problem) std::printf("    %s\n", row.problem.c_str());
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
    Done done;
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
