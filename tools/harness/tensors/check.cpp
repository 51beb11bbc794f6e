#include "harness/tensors/check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <thread>

#include "harness/gpu.h"
#include "harness/tensors/guard.h"
#include "reference/error_bound.h"
#include "reference/numbers.h"

namespace kiln::harness {
namespace {

int64_t channel_of(const Problem &p, int64_t index) {
    return (p.y_layout == Layout::ncx ? index / p.out_points() : index) % p.out_channels;
}

// Replaces each magnitude by the largest of those that are mixed with it.
void take_largest(const Problem &p, reference::Mixed mixed, std::vector<double> &magnitude) {
    if (mixed == reference::Mixed::none) return;
    const auto part_of = [&](int64_t i) { return mixed == reference::Mixed::channel ? channel_of(p, i) : 0; };
    std::vector<double> largest(static_cast<size_t>(p.out_channels));
    for (int64_t i = 0; i < p.y_elements(); ++i) largest[part_of(i)] = std::max(largest[part_of(i)], magnitude[i]);
    for (int64_t i = 0; i < p.y_elements(); ++i) magnitude[i] = largest[part_of(i)];
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
    double worst_ratio = 0, largest_bound = 0, largest_y = 0;
    reference::Result expected = subject.expected;
    take_largest(p, error_bound.mixed(), expected.magnitude);
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
        largest_bound = std::max(largest_bound, bound);
        largest_y = std::max(largest_y, std::abs(expected.y[i]));
        row->measured = true;
    }
    if (largest_y > 0 && std::isfinite(largest_y)) row->share = largest_bound / largest_y;
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
    int at_once;            // how many threads run the plan at the same time, each with its own workspace and y
    bool in_place = false;  // whether y is where the residual is
};

// What one run writes.
struct Output {
    GuardedBuffer y, workspace;
    Status status;

    Output(const Problem &p, const Plan &plan, int64_t workspace_bytes, const Mode &mode)
        : y("y", bytes_of(p, Tensor::y), mode.side, alignment_of(p, plan, Tensor::y), 0xff),  // NaN
          workspace("the workspace", workspace_bytes, mode.side, KILN_ALIGNMENT, mode.garbage) {}
};

// A kernel between guard pages: its inputs, which are the same in every run.
class GuardedKernel {
  public:
    // `embedded` as check_kernel has it.
    GuardedKernel(const Subject &subject, const Plan &plan, const kiln_layer *embedded, const Mode &mode)
        : subject_(subject),
          plan_(plan),
          run_embedded_(embedded ? embedded->run_embedded : nullptr),
          pack_embedded_(embedded ? embedded->pack_embedded : nullptr),
          mode_(mode),
          packed_("the packed weights", takes_packed() ? plan.packed_bytes() : 0, mode.side, KILN_ALIGNMENT, 0xff) {
        Pointers pointers{};
        for (const Tensor tensor : all_inputs) {
            inputs_.emplace_back(name_of(tensor), subject.tensors[tensor], mode.side,
                                 alignment_of(subject.problem, plan, tensor));
            pointers[static_cast<size_t>(tensor)] = inputs_.back().data();
        }
        arguments_ = run_arguments(subject.problem, pointers);
        arguments_.packed_weights = packed_.data();
        arguments_.threads = mode.threads;
    }

    Status pack() {
        if (!takes_packed()) return {};
        if (pack_embedded_ != nullptr) {
            const int32_t code = pack_embedded_(nullptr, nullptr, nullptr, nullptr, packed_.data());
            packed_.make_read_only();
            return code == kiln_ok ? Status() : Status::failed("packing returned %d", code);
        }
        const void *zero_points = input(Tensor::zero_points);
        const Status status = plan_.pack(input(Tensor::w), subject_.weight_strides.data(), packed_.data(),
                                         static_cast<const int32_t *>(zero_points));
        packed_.make_read_only();
        return status;
    }

    Status run(const Output &output) const {
        RunArguments a = arguments_;
        a.y = output.y.data();
        if (mode_.in_place) {
            const std::vector<char> &residual = subject_.tensors[Tensor::residual];
            std::copy(residual.begin(), residual.end(), static_cast<char *>(a.y));
            a.residual = a.y;
        }
        a.workspace = output.workspace.data();
        a.workspace_bytes = plan_.workspace_bytes(mode_.threads);
        if (run_embedded_ == nullptr) return run_plan(plan_, a);
        const int32_t code = run_kernel(run_embedded_, a, nullptr);
        return code == kiln_ok ? Status() : Status::failed("it returned %d", code);
    }

    // A run with another workspace than it should have.
    Status run_with(const Output &output, void *workspace, int64_t workspace_bytes) const {
        RunArguments a = arguments_;
        a.y = output.y.data();
        a.workspace = workspace;
        a.workspace_bytes = workspace_bytes;
        return plan_.run(a);
    }

    std::string stray_write() const { return packed_.stray_write(); }

  private:
    bool takes_packed() const { return run_embedded_ == nullptr || pack_embedded_ != nullptr; }

    const void *input(Tensor tensor) const {
        return has(subject_.problem, tensor) ? inputs_[static_cast<size_t>(tensor)].data() : nullptr;
    }

    const Subject &subject_;
    const Plan &plan_;
    const kiln_run_function run_embedded_;
    const kiln_pack_function pack_embedded_;
    const Mode &mode_;
    std::deque<GuardedBuffer> inputs_;  // in the order of Tensor
    GuardedBuffer packed_;
    RunArguments arguments_;
};

// Packs and runs a kernel between guard pages, and compares. Returns the verdict.
std::string run_guarded(const Subject &subject, const Plan &plan, const kiln_layer *embedded, const Mode &mode,
                        const reference::ErrorBound &error_bound, Row *row) {
    const Problem &p = subject.problem;
    GuardedKernel kernel(subject, plan, embedded, mode);
    std::deque<Output> outputs;
    for (int i = 0; i < mode.at_once; ++i) outputs.emplace_back(p, plan, plan.workspace_bytes(mode.threads), mode);
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

// A workspace that is too small, at a wrong address or none at all is refused before anything is written. Returns the
// verdict.
std::string refuse_workspaces(const Subject &subject, const Plan &plan, const Mode &mode) {
    const int64_t needed = plan.workspace_bytes(mode.threads);
    if (needed == 0 || subject.problem.y_elements() == 0)
        return "ok";  // where nothing is written, nothing is looked at
    const GuardedKernel kernel(subject, plan, nullptr, mode);
    const Output output(subject.problem, plan, needed, mode);
    auto *const workspace = static_cast<unsigned char *>(output.workspace.data());
    const struct {
        const char *what;
        void *workspace;
        int64_t bytes;
    } misuses[] = {
        {"a workspace of one byte less than it needs", workspace, needed - 1},
        {"a workspace of no bytes", workspace, 0},
        {"a workspace of a negative size", workspace, -1},
        {"a workspace at no multiple of KILN_ALIGNMENT", workspace + 1, needed},
        {"no workspace", nullptr, needed},
    };
    const size_t y_bytes = bytes_of(subject.problem, Tensor::y);
    for (const auto &misuse : misuses) {
        const Status status = kernel.run_with(output, misuse.workspace, misuse.bytes);
        if (status.code() != StatusCode::invalid_argument)
            return std::string("failed: ") + misuse.what + " is not refused (" + mode.name + ")";
    }
    const auto *const y = static_cast<const unsigned char *>(output.y.data());
    if (std::any_of(y, y + y_bytes, [](unsigned char byte) { return byte != 0xff; }))
        return std::string("failed: y was written though the workspace was refused (") + mode.name + ")";
    return "ok";
}

}  // namespace

Status compute_expected(Subject &subject) {
    const auto data = [&](Tensor tensor) -> const void * {
        return has(subject.problem, tensor) ? subject.tensors[tensor].data() : nullptr;
    };
    reference::Tensors inputs;
    inputs.weight_strides = subject.weight_strides.data();
    for (const Tensor tensor : all_inputs) inputs.set(tensor, data(tensor));
    return reference::compute(subject.problem, inputs, &subject.expected, 2);
}

// Pieces of a loop need nothing of each other: they may run in any order.
int32_t from_last_to_first(void *, kiln_task task, void *closure, int32_t count) {
    for (int32_t index = count; index-- > 0;)
        if (const int32_t code = task(closure, index, 0); code != kiln_ok) return code;
    return kiln_ok;
}

void check_kernel(const Subject &subject, const Plan &plan, const kiln_layer *embedded, const ThreadTeam &team,
                  bool thorough, Row *row) {
    const reference::AlgorithmError *algorithm = reference::find_algorithm_error(plan.kernel().algorithm);
    if (algorithm == nullptr) {
        row->verdict = "failed: no error bound is stated for the algorithm " + row->algorithm;
        return;
    }
    const reference::ErrorBound error_bound(subject.problem, *algorithm);
    // So many that few loops have pieces for all of them: then those within are shared (kiln_parallel_for_outer()).
    const kiln_threads eleven_workers = {team.hook()->context, 11, team.hook()->parallel_for};
    const kiln_threads backwards = {nullptr, 1, from_last_to_first};
    const Mode modes[] = {
        {"tensors before a guard page", GuardedBuffer::Side::end, 0xff, nullptr, 1},
        {"tensors behind a guard page", GuardedBuffer::Side::begin, 0x7f, nullptr, 1},
        {"tensors at addresses of no larger alignment than their elements'", GuardedBuffer::Side::between, 0xff,
         nullptr, 1},
        {"two threads", GuardedBuffer::Side::end, 0xff, team.hook(), 1},
        {"two threads for eleven workers", GuardedBuffer::Side::end, 0x7f, &eleven_workers, 1},
        {"pieces from the last to the first", GuardedBuffer::Side::end, 0x7f, &backwards, 1},
        {"three runs at once", GuardedBuffer::Side::end, 0xff, nullptr, 3},
        {"y in the residual's place", GuardedBuffer::Side::end, 0xff, team.hook(), 1, true},
    };
    for (const Mode &mode : modes) {
        // A GPU has threads of its own, and its memory is as aligned as its largest vectors: OpenCL asks that of shared
        // memory too.
        const bool is_for_processors = mode.threads != nullptr || mode.side == GuardedBuffer::Side::between;
        if (is_for_processors && plan.kernel().gpu != kiln_gpu_none) continue;
        const bool has_scratch = plan.workspace_bytes(&eleven_workers) > plan.workspace_bytes();
        if (mode.threads == &eleven_workers && !has_scratch) continue;
        if (mode.in_place && plan.kernel().residual_in_place == 0) continue;
        row->verdict = run_guarded(subject, plan, embedded, mode, error_bound, row);
        if (row->verdict != "ok" || !thorough) return;
        if (embedded == nullptr && plan.kernel().gpu == kiln_gpu_none)
            row->verdict = refuse_workspaces(subject, plan, mode);
        if (row->verdict != "ok") return;
    }
}

}  // namespace kiln::harness
