// The harness's side of kiln/gpu.h, for libraries of GPU targets alone.
#include "kiln/gpu.h"

#include <cstdlib>
#include <deque>
#include <type_traits>

#include "harness/commands.h"
#include "harness/cuda_graph.h"
#include "harness/gpu.h"
#include "harness/machine/machine.h"
#include "harness/tensors/data.h"

namespace kiln::harness {
namespace {

Status status_of(int32_t code) {
    switch (code) {
        case kiln_ok:
            return {};
        case kiln_invalid_argument:
            return Status::invalid_argument("%s", kiln_gpu_message());
        case kiln_unsupported:
            return Status::unsupported("%s", kiln_gpu_message());
        default:
            return Status::failed("%s", kiln_gpu_message());
    }
}

// A GPU, and the stream that its runs are queued in where that is this program's.
struct OpenGpu {
    kiln_gpu *gpu = nullptr;
    std::unique_ptr<CudaStream> stream;
};

// One for each interface, opened when it is first asked for and kept.
Status open_gpu(int32_t api, OpenGpu **opened) {
    static auto *gpus = new OpenGpu[3];  // never closed: the driver may be gone when this program ends
    OpenGpu &open = gpus[api];
    *opened = &open;
    if (open.gpu != nullptr) return {};
    const char *number = std::getenv("KILN_GPU");
    const int32_t index = number != nullptr ? std::atoi(number) : 0;
    if (api == kiln_gpu_cuda) open.stream = open_cuda_stream(index);
    return status_of(open.stream != nullptr
                         ? kiln_gpu_wrap_cuda(open.stream->context(), open.stream->stream(), &open.gpu)
                         : kiln_gpu_open(api, index, &open.gpu));
}

class Run final : public GpuRun {
  public:
    explicit Run(const Plan &plan) : plan_(plan) {}
    ~Run() override {
        for (void *memory : memories_) kiln_gpu_free(gpu_, memory);
    }

    Status place(const RunArguments &host) {
        OpenGpu *opened = nullptr;
        KILN_RETURN_IF_ERROR(open_gpu(plan_.kernel().gpu, &opened));
        gpu_ = opened->gpu;
        const Problem &p = plan_.problem();
        arguments_ = host;
        arguments_.gpu = gpu_;
        y_ = host.y;
        Status status;
        const auto place = [&](auto &pointer, int64_t bytes) {
            const void *memory = pointer;
            if (status.ok()) status = move(&memory, bytes);
            pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(const_cast<void *>(memory));
        };
        for_each_tensor(arguments_, [&](Tensor tensor, auto &pointer) { place(pointer, bytes_of(p, tensor)); });
        place(arguments_.packed_weights, plan_.packed_bytes());
        place(arguments_.workspace, host.workspace_bytes);
        return status;
    }

    Status start() override { return plan_.run(arguments_); }
    Status finish() override { return status_of(kiln_gpu_finish(gpu_)); }
    Status read() override {
        return status_of(kiln_gpu_read(gpu_, y_, arguments_.y, bytes_of(plan_.problem(), Tensor::y)));
    }

  private:
    // Replaces a pointer to the program's memory by one to the device's.
    Status move(const void **pointer, int64_t bytes) {
        if (*pointer == nullptr || bytes == 0) return {};
        void *memory = nullptr, *host = const_cast<void *>(*pointer);
        if (kiln_gpu_share(gpu_, host, bytes, &memory) != kiln_ok) {
            KILN_RETURN_IF_ERROR(status_of(kiln_gpu_allocate(gpu_, bytes, &memory)));
            memories_.push_back(memory);
            KILN_RETURN_IF_ERROR(status_of(kiln_gpu_write(gpu_, memory, host, bytes)));
        } else {
            memories_.push_back(memory);
        }
        *pointer = memory;
        return {};
    }

    const Plan plan_;
    kiln_gpu *gpu_ = nullptr;
    RunArguments arguments_;
    void *y_ = nullptr;
    std::deque<void *> memories_;
};

// Launches of a graph before the first whose time counts: as many as take this long the first time, for an idle GPU
// raises its clocks only after a while, and a few later.
constexpr double first_warm_up_seconds = 0.2;
constexpr int warm_up = 5;

}  // namespace

Status place_on_gpu(const Plan &plan, const RunArguments &host, std::unique_ptr<GpuRun> *run) {
    auto made = std::make_unique<Run>(plan);
    KILN_RETURN_IF_ERROR(made->place(host));
    *run = std::move(made);
    return {};
}

Status name_gpu(int32_t api, std::string *name) {
    OpenGpu *opened = nullptr;
    KILN_RETURN_IF_ERROR(open_gpu(api, &opened));
    *name = kiln_gpu_name(opened->gpu);
    return {};
}

std::vector<double> time_in_a_row(int32_t api, const std::vector<GpuRun *> &runs, int times) {
    OpenGpu *opened = nullptr;
    if (!open_gpu(api, &opened).ok() || opened->stream == nullptr) return {};
    const auto graph = opened->stream->capture([&] {
        bool queued = true;
        for (GpuRun *run : runs) queued = run->start().ok() && queued;
        return queued;
    });
    if (graph == nullptr) return {};
    static bool is_first = true;
    for (const double begin = now(); is_first && now() - begin < first_warm_up_seconds;)
        if (graph->seconds(warm_up).empty()) return {};
    is_first = false;
    std::vector<double> seconds = graph->seconds(warm_up + times);
    if (!seconds.empty()) seconds.erase(seconds.begin(), seconds.begin() + warm_up);
    return seconds;
}

void support_gpus() {
    gpu_support = {place_on_gpu, name_gpu, time_in_a_row};
}

}  // namespace kiln::harness
