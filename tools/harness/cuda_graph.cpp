// CUDA's graphs and events, by its driver's interface, loaded where there is one.
#include "harness/cuda_graph.h"

#include <dlfcn.h>

#include <type_traits>

namespace kiln::harness {
namespace {

// The part of cuda.h that is needed, so that building needs no toolkit.
using Result = int;
using Handle = void *;

struct Functions {
    Result (*Init)(unsigned);
    Result (*DeviceGet)(int *, int);
    Result (*DevicePrimaryCtxRetain)(Handle *, int);
    Result (*CtxSetCurrent)(Handle);
    Result (*StreamCreate)(Handle *, unsigned);
    Result (*StreamBeginCapture)(Handle, int);
    Result (*StreamEndCapture)(Handle, Handle *);
    Result (*GraphInstantiate)(Handle *, Handle, unsigned long long);
    Result (*GraphLaunch)(Handle, Handle);
    Result (*GraphExecDestroy)(Handle);
    Result (*GraphDestroy)(Handle);
    Result (*EventCreate)(Handle *, unsigned);
    Result (*EventRecord)(Handle, Handle);
    Result (*EventSynchronize)(Handle);
    Result (*EventElapsedTime)(float *, Handle, Handle);
    Result (*EventDestroy)(Handle);
};

// Whether the driver has all of them. It stays loaded.
bool load(Functions *cu) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    bool all = true;
    const auto find = [&](auto &function, const char *name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        all = all && function != nullptr;
    };
    find(cu->Init, "cuInit");
    find(cu->DeviceGet, "cuDeviceGet");
    find(cu->DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    find(cu->CtxSetCurrent, "cuCtxSetCurrent");
    find(cu->StreamCreate, "cuStreamCreate");
    find(cu->StreamBeginCapture, "cuStreamBeginCapture_v2");
    find(cu->StreamEndCapture, "cuStreamEndCapture");
    find(cu->GraphInstantiate, "cuGraphInstantiateWithFlags");
    find(cu->GraphLaunch, "cuGraphLaunch");
    find(cu->GraphExecDestroy, "cuGraphExecDestroy");
    find(cu->GraphDestroy, "cuGraphDestroy");
    find(cu->EventCreate, "cuEventCreate");
    find(cu->EventRecord, "cuEventRecord");
    find(cu->EventSynchronize, "cuEventSynchronize");
    find(cu->EventElapsedTime, "cuEventElapsedTime");
    find(cu->EventDestroy, "cuEventDestroy_v2");
    return all;
}

class Graph final : public CudaGraph {
  public:
    Graph(const Functions &cu, Handle stream, Handle exec) : cu_(cu), stream_(stream), exec_(exec) {}
    ~Graph() override {
        cu_.GraphExecDestroy(exec_);
        for (const Handle event : events_) cu_.EventDestroy(event);
    }

    std::vector<double> seconds(int launches) override {
        bool ok = make_events(launches + 1) && cu_.EventRecord(events_[0], stream_) == 0;
        for (int i = 0; i < launches && ok; ++i)
            ok = cu_.GraphLaunch(exec_, stream_) == 0 && cu_.EventRecord(events_[i + 1], stream_) == 0;
        ok = ok && cu_.EventSynchronize(events_[launches]) == 0;
        std::vector<double> result;
        for (int i = 0; i < launches && ok; ++i) {
            float milliseconds = 0;
            ok = cu_.EventElapsedTime(&milliseconds, events_[i], events_[i + 1]) == 0;
            result.push_back(milliseconds * 1e-3);
        }
        return ok ? result : std::vector<double>();
    }

  private:
    bool make_events(int count) {
        while (static_cast<int>(events_.size()) < count) {
            Handle event = nullptr;
            if (cu_.EventCreate(&event, 0) != 0) return false;
            events_.push_back(event);
        }
        return true;
    }

    const Functions &cu_;
    const Handle stream_, exec_;
    std::vector<Handle> events_;  // one before each launch, and one behind the last
};

class Stream final : public CudaStream {
  public:
    bool open(int32_t index) {
        int device = 0;
        return load(&cu_) && cu_.Init(0) == 0 && cu_.DeviceGet(&device, index) == 0 &&
               cu_.DevicePrimaryCtxRetain(&context_, device) == 0 && cu_.CtxSetCurrent(context_) == 0 &&
               cu_.StreamCreate(&stream_, 0) == 0;
    }
    void *context() const override { return context_; }
    void *stream() const override { return stream_; }

    std::unique_ptr<CudaGraph> capture(const std::function<bool()> &queue) override {
        constexpr int of_this_thread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        cu_.CtxSetCurrent(context_);       // the thread that times may be another
        if (cu_.StreamBeginCapture(stream_, of_this_thread) != 0) return nullptr;
        const bool queued = queue();
        Handle graph = nullptr, exec = nullptr;
        if (cu_.StreamEndCapture(stream_, &graph) != 0 || graph == nullptr) return nullptr;
        const bool made = queued && cu_.GraphInstantiate(&exec, graph, 0) == 0;
        cu_.GraphDestroy(graph);
        return made ? std::make_unique<Graph>(cu_, stream_, exec) : nullptr;
    }

  private:
    Functions cu_ = {};
    Handle context_ = nullptr, stream_ = nullptr;
};

}  // namespace

std::unique_ptr<CudaStream> open_cuda_stream(int32_t index) {
    auto stream = std::make_unique<Stream>();
    return stream->open(index) ? std::move(stream) : nullptr;
}

}  // namespace kiln::harness
