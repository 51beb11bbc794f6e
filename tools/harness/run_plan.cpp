// Running a plan, on the processor or on a GPU.
#include "harness/gpu.h"

namespace kiln::harness {

GpuSupport gpu_support;

Status run_plan(const Plan &plan, const RunArguments &arguments) {
    if (plan.kernel().gpu == kiln_gpu_none) return plan.run(arguments);
    if (gpu_support.place == nullptr) return Status::unsupported("this program was built without support for GPUs");
    std::unique_ptr<GpuRun> run;
    KILN_RETURN_IF_ERROR(gpu_support.place(plan, arguments, &run));
    KILN_RETURN_IF_ERROR(run->start());
    KILN_RETURN_IF_ERROR(run->finish());
    return run->read();
}

}  // namespace kiln::harness
