// Computes a layer in the two ways there are: by its own function, and by a plan.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>

#include "edges.h"
#include "kiln/plan.h"

namespace {

// The layer's tensors, sized as in layers.toml.
float x[32 * 32 * 8], w[16 * 8 * 3 * 3], bias[16];
float y[32 * 32 * 16], y_of_plan[32 * 32 * 16];

// The memory a kernel wants besides: nothing is allocated when it runs.
alignas(KILN_ALIGNMENT) unsigned char packed[EDGES_DETECT_PACKED_BYTES];
alignas(KILN_ALIGNMENT) unsigned char workspace[EDGES_DETECT_WORKSPACE_BYTES + 1];

// Small whole numbers: their sums are exact, so that the checksum is the same on every processor.
template <size_t size>
void fill(float (&values)[size], size_t step) {
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i * step % 7) - 3;
}

// By name. The weights are packed once, ahead of the first run.
int run_function() {
    if (const int code = edges_detect_pack(w, packed)) return code;
    edges_detect_args args = {};
    args.x = x;
    args.bias = bias;
    args.packed_weights = packed;
    args.y = y;
    args.workspace = workspace;
    return edges_detect(&args);
}

// By plan: which kernel is used can be asked, and chosen by a problem that is known only when the program runs.
kiln::Status run_plan() {
    kiln::Plan plan;
    KILN_RETURN_IF_ERROR(kiln::Plan::create(*edges_library(), "detect", &plan));
    std::printf("plan: %s kernel for %s\n", plan.kernel().algorithm, plan.kernel().problem);
    KILN_RETURN_IF_ERROR(plan.pack(w, packed));
    kiln::RunArguments arguments;
    arguments.x = x;
    arguments.bias = bias;
    arguments.packed_weights = packed;
    arguments.y = y_of_plan;
    arguments.workspace = workspace;
    arguments.workspace_bytes = sizeof(workspace);
    return plan.run(arguments);
}

}  // namespace

int main() {
    fill(x, 3);
    fill(w, 5);
    fill(bias, 2);
    if (const int code = run_function()) {
        std::fprintf(stderr, "edges_detect returned %d\n", code);
        return 1;
    }
    std::printf("checksum: %.0f\n", std::accumulate(std::begin(y), std::end(y), 0.0));
    if (const kiln::Status status = run_plan(); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.message());
        return 1;
    }
    if (!std::equal(std::begin(y), std::end(y), std::begin(y_of_plan))) {
        std::fprintf(stderr, "the plan's result differs\n");
        return 1;
    }
    return 0;
}
