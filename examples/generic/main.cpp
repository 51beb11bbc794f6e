// Runs convolutions whose shapes and attributes are known only now, without a compiler.
//
//     generic [SIZE]    an image of SIZE x SIZE points (24 if not said) through a Conv, then up by a ConvTranspose
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "anything.h"
#include "kiln/plan.h"

namespace {

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};

// Memory as kernels want it; plans say how much.
std::unique_ptr<void, Free> allocate(int64_t bytes) {
    const auto blocks = static_cast<size_t>(bytes) / KILN_ALIGNMENT + 1;
    return std::unique_ptr<void, Free>(std::aligned_alloc(KILN_ALIGNMENT, blocks * KILN_ALIGNMENT));
}

// y = the layer of x and w; the plan finds the kernel that takes it.
kiln::Status run(const kiln::Layer &layer, const std::vector<float> &x, const std::vector<float> &w,
                 std::vector<float> *y) {
    kiln::Plan plan;
    KILN_RETURN_IF_ERROR(kiln::Plan::create(*anything_library(), layer, &plan));
    std::printf("%s\n", print(plan.problem()).c_str());
    const auto packed = allocate(plan.packed_bytes()), workspace = allocate(plan.workspace_bytes());
    KILN_RETURN_IF_ERROR(plan.pack(w.data(), packed.get()));
    y->resize(plan.problem().y_elements());
    kiln::RunArguments arguments;
    arguments.x = x.data();
    arguments.packed_weights = packed.get();
    arguments.y = y->data();
    arguments.workspace = workspace.get();
    arguments.workspace_bytes = plan.workspace_bytes();
    return plan.run(arguments);
}

}  // namespace

int main(int argc, char **argv) {
    const int64_t size = argc > 1 ? std::atoll(argv[1]) : 24;
    // Small whole numbers, whose sums are exact: the checksum is the same on every processor.
    std::vector<float> image(3 * size * size), w(8 * 3 * 3 * 3), small, large;
    for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i * 3 % 7) - 3;
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 5 % 7) - 3;

    const int64_t strides[] = {2, 2}, pads[] = {1, 1, 1, 1};
    const kiln::Attribute attributes[] = {kiln::Attribute::list("strides", strides, 2),
                                          kiln::Attribute::list("pads", pads, 4)};
    kiln::Layer down;
    down.op = "Conv";
    down.x = {4, {1, 3, size, size}};
    down.w = {4, {8, 3, 3, 3}};
    down.attributes = attributes;
    down.attribute_count = 2;
    down.activation = "Relu";
    kiln::Status status = run(down, image, w, &small);
    if (status.ok()) {
        kiln::Layer up = down;
        up.op = "ConvTranspose";
        up.x = {4, {1, 8, (size + 1) / 2, (size + 1) / 2}};
        status = run(up, small, w, &large);
    }
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.message());
        return 1;
    }
    double sum = 0;
    for (const float value : large) sum += value;
    std::printf("checksum: %.0f\n", sum);
    return 0;
}
