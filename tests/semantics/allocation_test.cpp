// Nothing of the runtime allocates: every call of malloc is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "kiln/plan.h"
#include "layer_builder.h"

namespace {
std::atomic<int64_t> allocations{0};
}

#if defined(__has_feature)  // clang's way to say it
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_malloc_hook(const volatile void *, size_t) {
    allocations++;
}
#elif defined(__GLIBC__)
// In front of the C library's own, which keep serving; operator new comes by here too.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): glibc's names
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
// NOLINTEND(bugprone-reserved-identifier)

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
    allocations++;
    return __libc_realloc(old, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    allocations++;
    return __libc_memalign(alignment, size);
}
}
#else
#define NOT_COUNTED
#endif

namespace kiln::test {
namespace {

template <typename Call>
int64_t allocations_of(Call call) {
    const int64_t before = allocations;
    call();
    return allocations - before;
}

#if !defined(NOT_COUNTED)

TEST(Allocation, IsCounted) {
    EXPECT_GT(allocations_of([] { std::vector<int> v(1000); }), 0);
    EXPECT_GT(allocations_of([] {
                  void *volatile p = std::malloc(10);
                  std::free(p);
              }),
              0);
}

TEST(Allocation, NoneByResolve) {
    std::vector<Attribute> attributes, bad_attributes;
    const LayerBuilder good = conv_transpose({1, 4, 5, 5}, {4, 6, 3, 3})
                                  .list("strides", {2, 2})
                                  .list("output_shape", {9, 9})
                                  .bias()
                                  .activation("HardSigmoid");
    const LayerBuilder bad = good.list("stirdes", {1, 1});
    const Layer layer = good.view(&attributes), bad_layer = bad.view(&bad_attributes);
    Resolution resolution;
    bool ok = false, bad_ok = true;
    EXPECT_EQ(allocations_of([&] {
                  ok = resolve(layer, &resolution).ok();
                  bad_ok = resolve(bad_layer, &resolution).ok();
              }),
              0);
    EXPECT_TRUE(ok);
    EXPECT_FALSE(bad_ok);
}

TEST(Allocation, NoneByAnyDialect) {
    const LayerBuilder layers[] = {
        deform_conv({1, 4, 5, 5}, {6, 4, 3, 3}).integer("offset_group", 2).mask(),
        conv_integer({1, 4, 5}, {6, 4, 3}).zero_points(1, {2}, 0),
        qlinear_conv({1, 4, open}, {2, 4, 3}).scales(0.5, {1, 2}, 3).zero_points(1, {2, 3}, 4),
        ms_nhwc({1, 5, 4}, {4, 6, 3}).text("activation", "Clip").list("activation_params", {0, 6}),
        onednn({1, 5, 4}, {3, 4, 6}).auto_pad("Same_Upper"),
        convolution({1, 4, 5}, {72}).integer("num_output_maps", 6).list("kernel_size_nd", {3}),
    };
    for (const LayerBuilder &builder : layers) {
        std::vector<Attribute> attributes;
        const Layer layer = builder.view(&attributes);
        Resolution resolution;
        float scale[3];
        int32_t zero_points[2];
        bool ok = false;
        EXPECT_EQ(allocations_of([&] {
                      ok = resolve(layer, &resolution).ok();
                      if (layer.op == "QLinearConv") {
                          ok = ok && output_scale(resolution.problem, layer.quantization, scale).ok() &&
                               weight_zero_points(resolution.problem, layer.quantization, zero_points).ok();
                      }
                  }),
                  0);
        EXPECT_TRUE(ok) << std::string(layer.op);
    }
}

const char text[] = "conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-leakyrelu:0.01";

TEST(Allocation, NoneByTheText) {
    Problem problem;
    uint64_t key = 0;
    bool ok = false, bad_ok = true;
    EXPECT_EQ(allocations_of([&] {
                  ok = parse(text, &problem).ok();
                  bad_ok = parse("conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1", &problem).ok();
                  key = hash(problem) + print(problem).size;
              }),
              0);
    EXPECT_TRUE(ok);
    EXPECT_FALSE(bad_ok);
    EXPECT_NE(key, 0u);
}

int32_t run_nothing(const void *, const void *, const void *, const void *, const void *, const void *, const float *,
                    void *, const int32_t *, void *, const kiln_threads *) {
    return kiln_ok;
}
int32_t pack_nothing(const void *, const int64_t *, const int32_t *, const int32_t *, void *) {
    return kiln_ok;
}

TEST(Allocation, NoneByPlans) {
    const kiln_kernel kernel = {
        "conv2d-f32-n?-c64-i?x?-m64-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc-bias-leakyrelu:0.01",
        "direct",
        "",
        "test",
        0,
        {},
        run_nothing,
        pack_nothing,
        nullptr,
        0,
        0};
    const kiln_library library = {"lib", "0", 1, 0, &kernel, nullptr};
    alignas(64) float memory[16] = {};
    Problem problem;
    ASSERT_TRUE(parse(text, &problem).ok());
    RunArguments arguments;
    arguments.x = arguments.packed_weights = arguments.bias = memory;
    arguments.y = memory;
    bool created = false, ran = false;
    EXPECT_EQ(allocations_of([&] {
                  Plan plan;
                  created = Plan::create(library, problem, &plan).ok();
                  ran = plan.pack(memory, memory).ok() && plan.run(arguments).ok();
              }),
              0);
    EXPECT_TRUE(created);
    EXPECT_TRUE(ran);
}

#endif

}  // namespace
}  // namespace kiln::test
