// Plans on made-up kernels: which is chosen, what is passed to it, what is refused.
#include "kiln/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "../parsed.h"
#include "kiln/cpu.h"
#include "layer_builder.h"

namespace kiln::test {
namespace {

// What the last kernel was called with.
struct Call {
    int count = 0;
    const void *x, *packed, *bias, *residual, *offset, *mask, *scale, *y, *workspace;
    const kiln_threads *threads;
    bool has_sizes;
    int32_t sizes[max_open_sizes];
    std::vector<int64_t> strides;
    int32_t result = kiln_ok;
} call;

int32_t fake_run(const void *x, const void *packed, const void *bias, const void *residual, const void *offset,
                 const void *mask, const float *scale, void *y, const int32_t *sizes, void *workspace,
                 const kiln_threads *threads) {
    call.count++;
    call.x = x;
    call.packed = packed;
    call.bias = bias;
    call.residual = residual;
    call.offset = offset;
    call.mask = mask;
    call.scale = scale;
    call.y = y;
    call.workspace = workspace;
    call.threads = threads;
    call.has_sizes = sizes != nullptr;
    for (int i = 0; sizes != nullptr && i < 16; i++) {
        call.sizes[i] = sizes[i];
    }
    return call.result;
}

int32_t fake_pack(const void *, const int64_t *strides, const int32_t *, const int32_t *, void *) {
    call.strides.assign(strides, strides + 4);
    return call.result;
}

kiln_kernel kernel_for(const char *problem, uint64_t features = 0, const char *algorithm = "direct") {
    return {problem, algorithm, "", "test", features, {128, 256, 64}, fake_run, fake_pack, nullptr, kiln_gpu_none, 0};
}

// A library that owns its tables.
struct Library {
    std::vector<kiln_kernel> kernels;
    std::vector<kiln_layer> layers;
    kiln_library table() const {
        return {"lib",          "0",          static_cast<int32_t>(kernels.size()), static_cast<int32_t>(layers.size()),
                kernels.data(), layers.data()};
    }
};

constexpr uint64_t missing_feature = uint64_t{1} << 40;
#define OPERANDS "-m8-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx-bias"
#define OPEN_OPERANDS "-m8-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-ncx,ncx-bias"
const char exact[] = "conv2d-f32-n1-c4-i9x9" OPERANDS;
const char any_batch[] = "conv2d-f32-n?-c4-i9x9" OPERANDS;
const char any_image[] = "conv2d-f32-n?-c4-i?x?" OPEN_OPERANDS;
const char anything[] = "conv2d-f32-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-ncx,ncx-bias";
const char other[] = "conv2d-f32-n1-c5-i9x9" OPERANDS;

std::string chosen(const std::vector<kiln_kernel> &kernels, const Problem &problem) {
    const Library library{kernels, {}};
    Plan plan;
    const Status status = Plan::create(library.table(), problem, &plan);
    return status.ok() ? std::string(plan.kernel().problem) + " " + plan.kernel().algorithm : status.message();
}

TEST(Plan, PicksTheMostSpecificKernel) {
    const kiln_kernel a = kernel_for(anything), b = kernel_for(any_image), c = kernel_for(any_batch),
                      d = kernel_for(exact);
    const Problem problem = parsed(exact);
    EXPECT_EQ(chosen({a, b, c, d}, problem), std::string(exact) + " direct");
    EXPECT_EQ(chosen({a, b, c}, problem), std::string(any_batch) + " direct");
    EXPECT_EQ(chosen({a, b}, problem), std::string(any_image) + " direct");
    EXPECT_EQ(chosen({b, a}, problem), std::string(any_image) + " direct");
    EXPECT_EQ(chosen({a}, problem), std::string(anything) + " direct");
}

TEST(Plan, PicksTheFirstOfEquallySpecificOnes) {
    EXPECT_EQ(
        chosen({kernel_for(other), kernel_for(exact, 0, "winograd"), kernel_for(exact, 0, "direct")}, parsed(exact)),
        std::string(exact) + " winograd");
    EXPECT_EQ(chosen({kernel_for(any_batch, 0, "winograd"), kernel_for(any_batch, 0, "direct")}, parsed(exact)),
              std::string(any_batch) + " winograd");
}

TEST(Plan, SkipsWhatTheProcessorLacks) {
    EXPECT_EQ(chosen({kernel_for(exact, missing_feature), kernel_for(exact, 0, "baseline")}, parsed(exact)),
              std::string(exact) + " baseline");
    EXPECT_EQ(chosen({kernel_for(exact, missing_feature), kernel_for(any_image, 0, "baseline")}, parsed(exact)),
              std::string(any_image) + " baseline");
    EXPECT_EQ(chosen({kernel_for(exact, kiln_cpu_features(), "mine")}, parsed(exact)), std::string(exact) + " mine");
}

TEST(Plan, SaysWhyThereIsNone) {
    Plan plan;
    const Library none{{kernel_for(other)}, {}}, lacking{{kernel_for(any_batch, missing_feature)}, {}};
    Status status = Plan::create(none.table(), parsed(exact), &plan);
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_EQ(status.message(), std::string("no kernel of the library lib computes ") + exact);
    status = Plan::create(lacking.table(), parsed(exact), &plan);
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_NE(std::string(status.message()).find("features that this processor lacks (0x10000000000)"),
              std::string::npos)
        << status.message();

    status = Plan::create(none.table(), parsed(any_image), &plan);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(std::string(status.message()).find("leaves some open"), std::string::npos) << status.message();
    Problem bad = parsed(exact);
    bad.groups = 3;
    status = Plan::create(none.table(), bad, &plan);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);

    const Library broken{{kernel_for("conv2d-f32-n1-c4-i9x9-m8-o9x9-k3x3-nonsense")}, {}};
    status = Plan::create(broken.table(), parsed(exact), &plan);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(std::string(status.message()).find("'nonsense'"), std::string::npos) << status.message();
}

TEST(Plan, TakesProblemsThatAreNotCanonical) {
    Problem problem = parsed(exact);
    problem.pad_end = {7, 7};
    EXPECT_EQ(chosen({kernel_for(exact)}, problem), std::string(exact) + " direct");
}

TEST(Plan, ForcesAKernel) {
    Plan plan;
    const kiln_kernel kernel = kernel_for(any_image);
    ASSERT_TRUE(Plan::create(kernel, parsed(exact), &plan).ok());
    EXPECT_EQ(&plan.kernel(), &kernel);
    EXPECT_EQ(plan.problem(), parsed(exact));

    const kiln_kernel wrong = kernel_for(other), lacking = kernel_for(exact, missing_feature);
    Status status = Plan::create(wrong, parsed(exact), &plan);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(std::string(status.message()).find("does not compute"), std::string::npos) << status.message();
    status = Plan::create(lacking, parsed(exact), &plan);
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_EQ(&plan.kernel(), &kernel) << "a failure changed the plan";
}

// Memory for one run of `exact`.
struct Memory {
    alignas(64) float x[4 * 81], y[8 * 81], bias[8];
    alignas(64) char packed[128], workspace[256 + 3 * 64];

    RunArguments arguments() {
        RunArguments a;
        a.x = x;
        a.packed_weights = packed;
        a.bias = bias;
        a.y = y;
        a.workspace = workspace;
        a.workspace_bytes = 256;
        return a;
    }
};

Plan plan_for(const kiln_kernel &kernel, const char *problem) {
    Plan plan;
    const Status status = Plan::create(kernel, parsed(problem), &plan);
    EXPECT_TRUE(status.ok()) << status.message();
    return plan;
}

TEST(Plan, PassesItsArgumentsOn) {
    call = {};
    const kiln_kernel kernel = kernel_for(exact);
    const Plan plan = plan_for(kernel, exact);
    EXPECT_EQ(plan.packed_bytes(), 128);
    EXPECT_EQ(plan.workspace_bytes(), 256);
    Memory memory;
    const RunArguments a = memory.arguments();
    const Status status = plan.run(a);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(call.count, 1);
    EXPECT_EQ(call.x, memory.x);
    EXPECT_EQ(call.packed, memory.packed);
    EXPECT_EQ(call.bias, memory.bias);
    EXPECT_EQ(call.y, memory.y);
    EXPECT_EQ(call.workspace, memory.workspace);
    EXPECT_EQ(call.residual, nullptr);
    EXPECT_EQ(call.offset, nullptr);
    EXPECT_EQ(call.mask, nullptr);
    EXPECT_EQ(call.threads, nullptr);
    EXPECT_FALSE(call.has_sizes);
}

TEST(Plan, PassesOpenSizesInTheOrderOfTheText) {
    call = {};
    const kiln_kernel kernel = kernel_for(anything);
    const Plan plan = plan_for(kernel, "conv2d-f32-n1-c4-i9x10-m8-o7x4-k3x2-s1x2-d1x3-p0x~1,0x1-g2-ncx,ncx-bias");
    Memory memory;
    const Status status = plan.run(memory.arguments());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(call.has_sizes);
    EXPECT_EQ(std::vector<int32_t>(call.sizes, call.sizes + 16),
              (std::vector<int32_t>{1, 4, 9, 10, 8, 7, 4, 3, 2, 1, 2, 1, 3, 0, -1, 2}));
}

TEST(Plan, RefusesOpenSizesBeyondTheKernels) {
    Plan plan;
    const kiln_kernel kernel = kernel_for("conv1d-f32-n?-c1-i?-m1-o?-k1-s1-d1-p0,?-g1-ncx,ncx");
    const Status status =
        Plan::create(kernel, parsed("conv1d-f32-n1-c1-i3000000000-m1-o3000000000-k1-s1-d1-p0,0-g1-ncx,ncx"), &plan);
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_NE(std::string(status.message()).find("3000000000"), std::string::npos) << status.message();
}

struct BadRun {
    void (*change)(RunArguments &a);
    const char *message;
};
int32_t no_parallel_for(void *, kiln_task, void *, int32_t) {
    return kiln_ok;
}
const kiln_threads four_workers = {nullptr, 4, no_parallel_for}, no_workers = {nullptr, 0, no_parallel_for},
                   no_function = {nullptr, 4, nullptr};
char *shifted(const void *p) {
    return static_cast<char *>(const_cast<void *>(p)) + 2;
}

const BadRun bad_runs[] = {
    {[](RunArguments &a) { a.x = nullptr; }, "x is null"},
    {[](RunArguments &a) { a.y = nullptr; }, "y is null"},
    {[](RunArguments &a) { a.bias = nullptr; }, "bias is null"},
    {[](RunArguments &a) { a.packed_weights = nullptr; }, "packed_weights is null"},
    {[](RunArguments &a) { a.workspace = nullptr; }, "workspace is null: 256 bytes are needed"},
    {[](RunArguments &a) { a.workspace_bytes = 255; }, "workspace_bytes is 255: 256 are needed"},
    {[](RunArguments &a) { a.x = shifted(a.x); }, "it must be a multiple of 4 bytes"},
    {[](RunArguments &a) { a.y = shifted(a.y); }, "y is at"},
    {[](RunArguments &a) { a.packed_weights = shifted(a.packed_weights); }, "it must be a multiple of 64 bytes"},
    {[](RunArguments &a) { a.workspace = shifted(a.workspace); }, "workspace is at"},
    {[](RunArguments &a) { a.residual = a.y; }, "residual is given, but the problem has no such tensor"},
    {[](RunArguments &a) { a.mask = a.y; }, "mask is given"},
    {[](RunArguments &a) { a.offset = a.y; }, "offset is given"},
    {[](RunArguments &a) { a.threads = &four_workers; }, "workspace_bytes is 256: 448 are needed"},
    {[](RunArguments &a) { a.threads = &no_workers; }, "threads->workers is 0"},
    {[](RunArguments &a) { a.threads = &no_function; }, "threads->parallel_for is null"},
};

TEST(Plan, RefusesBadArguments) {
    call = {};
    const kiln_kernel kernel = kernel_for(exact);
    const Plan plan = plan_for(kernel, exact);
    Memory memory;
    for (const BadRun &bad : bad_runs) {
        RunArguments a = memory.arguments();
        bad.change(a);
        const Status status = plan.run(a);
        EXPECT_EQ(status.code(), StatusCode::invalid_argument) << bad.message;
        EXPECT_NE(std::string(status.message()).find(bad.message), std::string::npos) << status.message();
    }
    EXPECT_EQ(call.count, 0) << "a kernel ran on bad arguments";
    EXPECT_EQ(Plan().run(memory.arguments()).code(), StatusCode::invalid_argument);
    EXPECT_EQ(Plan().pack(memory.x, memory.packed).code(), StatusCode::invalid_argument);
}

TEST(Plan, SizesTheWorkspaceByWorkers) {
    const kiln_kernel kernel = kernel_for(exact);
    const Plan plan = plan_for(kernel, exact);
    EXPECT_EQ(plan.workspace_bytes(&four_workers), 256 + 3 * 64);
    Memory memory;
    RunArguments a = memory.arguments();
    a.threads = &four_workers;
    a.workspace_bytes = 256 + 3 * 64;
    EXPECT_TRUE(plan.run(a).ok());
    EXPECT_EQ(call.threads, &four_workers);
}

TEST(Plan, NeedsNoWorkspaceWhereTheKernelHasNone) {
    kiln_kernel kernel = kernel_for(exact);
    kernel.bytes.workspace = 0;
    Memory memory;
    RunArguments a = memory.arguments();
    a.workspace = nullptr;
    a.workspace_bytes = 0;
    EXPECT_TRUE(plan_for(kernel, exact).run(a).ok());
}

TEST(Plan, TakesAResidualInYFromKernelsThatAddItInPlace) {
    const std::string problem = std::string(exact) + "-residual";
    kiln_kernel kernel = kernel_for(problem.c_str());
    Memory memory;
    RunArguments a = memory.arguments();
    a.residual = a.y;
    EXPECT_EQ(std::string(plan_for(kernel, problem.c_str()).run(a).message()),
              "residual is y: this kernel does not add it in place");
    kernel.residual_in_place = 1;
    EXPECT_TRUE(plan_for(kernel, problem.c_str()).run(a).ok());
}

TEST(Plan, ReportsWhatTheKernelReports) {
    const kiln_kernel kernel = kernel_for(exact);
    const Plan plan = plan_for(kernel, exact);
    Memory memory;
    for (const int32_t code : {kiln_invalid_argument, kiln_unsupported, kiln_failed}) {
        call.result = code;
        EXPECT_EQ(static_cast<int32_t>(plan.run(memory.arguments()).code()), code);
        EXPECT_EQ(static_cast<int32_t>(plan.pack(memory.x, memory.packed).code()), code);
    }
    call.result = -1;
    EXPECT_EQ(plan.run(memory.arguments()).code(), StatusCode::failed);
    call.result = kiln_ok;
}

// An empty output asks nothing of the caller, and nothing of the kernel; an empty input gives the bias.
TEST(Plan, TakesEmptyTensors) {
    call = {};
    const kiln_kernel kernel = kernel_for("conv1d-f32-n?-c1-i?-m1-o?-k1-s1-d1-p?,?-g1-ncx,ncx");
    EXPECT_TRUE(plan_for(kernel, "conv1d-f32-n0-c1-i3-m1-o3-k1-s1-d1-p0,0-g1-ncx,ncx").run({}).ok());
    EXPECT_EQ(call.count, 0);
    Memory memory;
    RunArguments a = memory.arguments();
    a.bias = nullptr;
    a.x = nullptr;
    const Status status = plan_for(kernel, "conv1d-f32-n1-c1-i0-m1-o2-k1-s1-d1-p1,1-g1-ncx,ncx").run(a);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(call.count, 1);
}

TEST(Plan, PacksWithTheLayersStrides) {
    const LayerBuilder layer =
        conv({1, 4, 9, 9}, {8, 4, 3, 3}).list("pads", {1, 1, 1, 1}).bias().layouts(Layout::ncx, Layout::ncx, "XIO");
    std::vector<Attribute> attributes;
    const int64_t embedded_strides[] = {1, 8, 96, 32};
    const Library library{{kernel_for(exact)},
                          {{"l", exact, embedded_strides, nullptr, nullptr, nullptr, 0, nullptr},
                           {"plain", exact, nullptr, nullptr, nullptr, nullptr, 0, nullptr}}};
    Memory memory;
    const std::vector<int64_t> xio = {1, 8, 96, 32}, oix = {36, 9, 3, 1};
    Plan plan;
    ASSERT_TRUE(Plan::create(library.table(), layer.view(&attributes), &plan).ok());
    ASSERT_TRUE(plan.pack(memory.x, memory.packed).ok());
    EXPECT_EQ(call.strides, xio);
    ASSERT_TRUE(Plan::create(library.table(), "l", &plan).ok());
    ASSERT_TRUE(plan.pack(memory.x, memory.packed).ok());
    EXPECT_EQ(call.strides, xio);
    ASSERT_TRUE(Plan::create(library.table(), "plain", &plan).ok());
    ASSERT_TRUE(plan.pack(memory.x, memory.packed).ok());
    EXPECT_EQ(call.strides, oix);
    ASSERT_TRUE(Plan::create(library.table(), parsed(exact), &plan).ok());
    ASSERT_TRUE(plan.pack(memory.x, memory.packed).ok());
    EXPECT_EQ(call.strides, oix);
    const int64_t mine[] = {5, 6, 7, 8};
    ASSERT_TRUE(plan.pack(memory.x, mine, memory.packed).ok());
    EXPECT_EQ(call.strides, (std::vector<int64_t>{5, 6, 7, 8}));

    EXPECT_EQ(plan.pack(nullptr, memory.packed).code(), StatusCode::invalid_argument);
    EXPECT_EQ(plan.pack(memory.x, nullptr).code(), StatusCode::invalid_argument);
    EXPECT_EQ(plan.pack(memory.x, shifted(memory.packed)).code(), StatusCode::invalid_argument);
}

TEST(Plan, RunsOnAGpuWhatIsForIt) {
    call = {};
    const kiln_gpu cuda = {kiln_gpu_cuda, [] { return "the device is gone"; }},
                   opencl = {kiln_gpu_opencl, cuda.message};
    kiln_kernel kernel = kernel_for(exact);
    kernel.gpu = kiln_gpu_cuda;
    Memory memory;
    RunArguments a = memory.arguments();
    a.x = shifted(a.x);  // a handle may be any number
    a.workspace = shifted(a.workspace);
    EXPECT_STREQ(plan_for(kernel, exact).run(a).message(), "gpu is null: the kernel is for test");
    a.gpu = &opencl;
    EXPECT_EQ(plan_for(kernel, exact).run(a).code(), StatusCode::invalid_argument);
    a.gpu = &cuda;
    a.threads = &four_workers;
    EXPECT_STREQ(plan_for(kernel, exact).run(a).message(), "threads is given, but the kernel is for test");
    a.threads = nullptr;
    EXPECT_EQ(call.count, 0);
    EXPECT_TRUE(plan_for(kernel, exact).run(a).ok());
    EXPECT_EQ(static_cast<const void *>(call.threads), &cuda);
    for (const auto &[code, expected] :
         {std::pair{kiln_failed, StatusCode::failed}, std::pair{kiln_unsupported, StatusCode::unsupported}}) {
        call.result = code;
        const Status status = plan_for(kernel, exact).run(a);
        EXPECT_EQ(status.code(), expected);
        EXPECT_STREQ(status.message(), "the device is gone");
    }
    kernel.gpu = kiln_gpu_none;
    a = memory.arguments();
    a.gpu = &cuda;
    EXPECT_STREQ(plan_for(kernel, exact).run(a).message(), "gpu is given, but the kernel is for test");
}

TEST(Plan, SaysWhatIsWrongWithALayer) {
    const Library library{{kernel_for(exact)}, {}};
    Plan plan;
    std::vector<Attribute> attributes;
    const LayerBuilder bad = conv({1, 4, 9, 9}, {8, 4, 3, 3}).list("strides", {-1, 1});
    Status status = Plan::create(library.table(), bad.view(&attributes), &plan);
    EXPECT_STREQ(status.message(), "strides[0] is -1: strides must be positive");
    status = Plan::create(library.table(), "nowhere", &plan);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_STREQ(status.message(), "the library lib has no layer nowhere");
}

// The table is read by a tensor's number; layers' structs have what kernels take, and for_each_tensor goes through it.
TEST(Tensors, AreOneList) {
    std::vector<Tensor> taken;
    RunArguments arguments;
    for_each_tensor(arguments, [&](Tensor tensor, const void *) { taken.push_back(tensor); });
    EXPECT_EQ(std::size(layer_tensors), taken.size());
    for (size_t i = 0; i < tensor_count; i++) {
        const TensorTraits &row = tensor_traits[i];
        EXPECT_EQ(static_cast<size_t>(row.tensor), i) << row.name;
        const auto count = [&](const auto &list) { return std::count(std::begin(list), std::end(list), row.tensor); };
        EXPECT_EQ(count(taken), row.packs ? 0 : 1) << row.name;
        EXPECT_EQ(count(layer_tensors), row.packs ? 0 : 1) << row.name;
    }
    EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
}

// What a problem has, of which type and how much of it.
TEST(Tensors, OfAProblem) {
    const Problem p = parsed("deformconv2d-f16-n2-c4-i5x5-m6-o5x5-k3x3-s1x1-d1x1-p1x1,1x1-g1-og2-nxc,ncx-bias-mask");
    EXPECT_EQ(elements_of(p, Tensor::x), 2 * 4 * 25);
    EXPECT_EQ(elements_of(p, Tensor::w), 6 * 4 * 9);
    EXPECT_EQ(elements_of(p, Tensor::offset), 2 * 2 * 2 * 9 * 25);
    EXPECT_EQ(elements_of(p, Tensor::mask), 2 * 2 * 9 * 25);
    EXPECT_EQ(elements_of(p, Tensor::bias), 6);
    EXPECT_EQ(elements_of(p, Tensor::residual), 0);
    EXPECT_EQ(type_of(p, Tensor::mask), DType::f16);
    const Problem open = parsed("conv1d-u8.s8.u8-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-xz?-yz?-?,?-wz-epilogue?-strict");
    EXPECT_TRUE(has(open, Tensor::bias) && has(open, Tensor::scale) && has(open, Tensor::zero_points));
    EXPECT_FALSE(has(open, Tensor::residual) || has(open, Tensor::offset) || has(open, Tensor::mask));
    EXPECT_EQ(type_of(open, Tensor::bias), DType::s32);
}

}  // namespace
}  // namespace kiln::test
