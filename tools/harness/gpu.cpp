// The harness's side of kiln/gpu.h, for libraries of GPU targets alone.
#include "kiln/gpu.h"

#include <cstdlib>
#include <deque>

#include "harness/data.h"
#include "harness/gpu.h"

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

// One for each interface, opened when it is first asked for and kept.
Status open_gpu(int32_t api, kiln_gpu **gpu) {
    static kiln_gpu *opened[3] = {};
    const char *number = std::getenv("KILN_GPU");
    if (opened[api] == nullptr)
        KILN_RETURN_IF_ERROR(status_of(kiln_gpu_open(api, number != nullptr ? std::atoi(number) : 0, &opened[api])));
    *gpu = opened[api];
    return {};
}

class Run final : public GpuRun {
  public:
    explicit Run(const Plan &plan) : plan_(plan) {}
    ~Run() override {
        for (void *memory : memories_) kiln_gpu_free(gpu_, memory);
    }

    Status place(const RunArguments &host) {
        KILN_RETURN_IF_ERROR(open_gpu(plan_.kernel().gpu, &gpu_));
        const Problem &p = plan_.problem();
        const auto bytes = [&p](Tensor tensor) { return bytes_of(p, tensor); };
        arguments_ = host;
        arguments_.gpu = gpu_;
        y_ = host.y;
        KILN_RETURN_IF_ERROR(move(&arguments_.x, bytes(Tensor::x)));
        KILN_RETURN_IF_ERROR(move(&arguments_.packed_weights, plan_.packed_bytes()));
        KILN_RETURN_IF_ERROR(move(&arguments_.bias, bytes(Tensor::bias)));
        KILN_RETURN_IF_ERROR(move(&arguments_.residual, bytes(Tensor::residual)));
        KILN_RETURN_IF_ERROR(move(&arguments_.offset, bytes(Tensor::offset)));
        KILN_RETURN_IF_ERROR(move(&arguments_.mask, bytes(Tensor::mask)));
        const void *scale = host.scale;
        KILN_RETURN_IF_ERROR(move(&scale, bytes(Tensor::scale)));
        arguments_.scale = static_cast<const float *>(scale);
        const void *y = host.y, *workspace = host.workspace;
        KILN_RETURN_IF_ERROR(move(&y, bytes(Tensor::y)));
        KILN_RETURN_IF_ERROR(move(&workspace, host.workspace_bytes));
        arguments_.y = const_cast<void *>(y);
        arguments_.workspace = const_cast<void *>(workspace);
        return {};
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

}  // namespace

Status place_on_gpu(const Plan &plan, const RunArguments &host, std::unique_ptr<GpuRun> *run) {
    auto made = std::make_unique<Run>(plan);
    KILN_RETURN_IF_ERROR(made->place(host));
    *run = std::move(made);
    return {};
}

}  // namespace kiln::harness
