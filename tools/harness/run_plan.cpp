// Running a plan, on the processor or on a GPU.
#include "harness/gpu.h"

namespace kiln::harness {

PlaceOnGpu gpu_support = nullptr;

Status run_plan(const Plan &plan, const RunArguments &arguments) {
    if (plan.kernel().gpu == kiln_gpu_none) return plan.run(arguments);
    if (gpu_support == nullptr) return Status::unsupported("this program was built without support for GPUs");
    std::unique_ptr<GpuRun> run;
    KILN_RETURN_IF_ERROR(gpu_support(plan, arguments, &run));
    KILN_RETURN_IF_ERROR(run->start());
    KILN_RETURN_IF_ERROR(run->finish());
    return run->read();
}

}  // namespace kiln::harness
