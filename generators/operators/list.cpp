// The list of algorithms, in the order they are asked: the first that applies, and is profitable where it tells, is
// taken.
#include <stdexcept>

#include "algorithms/algorithm.h"
#include "axes/image_parts.h"
#include "axes/simplify_problem.h"
#include "operators/complete_phases.h"
#include "operators/implementations.h"
#include "operators/implementations_gpu.h"
#include "operators/row.h"
#include "operators/spread_outputs.h"

namespace kiln {
namespace {

using namespace implementations;

bool is_fixed(const Problem &problem, Operator op) {
    return problem.op == op && !problem.has_open_sizes() && !is_empty(problem);
}

bool is_processor(const Problem &, const TargetModel &target) {
    return !target.is_gpu();
}

bool is_gpu(const Problem &, const TargetModel &target) {
    return target.is_gpu();
}

bool is_fixed_conv(const Problem &problem) {
    return is_fixed(problem, Operator::conv);
}

bool is_fixed_conv_transpose(const Problem &problem) {
    return is_fixed(problem, Operator::conv_transpose);
}

// Whether phases of unequal sizes are worth completing for the depthwise algorithm, whose y is then cropped. Of one
// output a channel its channels-first bytes are not, nor short rows: on an Intel Xeon 3x3 with stride 2 of 64 channels
// at 14x14 takes .0113 ms in place of .0158, at 7x7 of 128 .0121 and .0090, of bytes .0285 and .0091; of bytes channels
// last .0070 and .0083, by 5x5 .0139 and .0101.
bool depthwise_is_profitable(const Problem &problem, const TargetModel &target) {
    constexpr int most_taps_of_bytes = 9, least_positions = 8;
    const Problem completed = complete_phases(problem);
    const bool is_nxc = problem.y_layout == Layout::nxc;
    const int last = problem.rank - 1;
    const int64_t positions = completed.out[last] / completed.stride[last];
    const int least = size_of(problem.x_type) < 4 ? 2 * least_positions : least_positions;
    const bool pays =
        problem.is_quantized() ? is_nxc && problem.taps() <= most_taps_of_bytes : is_nxc || positions >= least;
    return depthwise::is_profitable(completed, target) &&
           (completed == problem || pays || problem.out_channels > problem.groups);
}

// What the two algorithms compute of a problem.
Problem kn2row_problem(const Problem &problem) {
    return complete_phases(dense_problem(problem));
}
Problem winograd_problem(const Problem &problem) {
    return complete_merged_phases(dense_problem(problem));
}

// An image as it is, none of its parts, and not of a batch that alone is open.
bool takes_depthwise_images(const Problem &problem, const TargetModel &) {
    return of_known_sizes(problem) == problem && fills_vectors_of_channels(problem);
}

constexpr Algorithm list[] = {
    row<Empty>({.name = "empty",
                .summary = "x or y has no elements: bias, residual and activation alone",
                .applies = is_empty,
                .runs_on = is_processor}),
    row<DynamicDepthwise>({.name = "dynamic_depthwise",
                           .summary = "each channel by itself, sizes of images and padding read at run time",
                           .reads_open_sizes = true,
                           .applies = dynamic_depthwise::applies,
                           .runs_on = is_processor,
                           .is_profitable = takes_depthwise_images}),
    row<Dynamic>({.name = "dynamic",
                  .former_name = "open",
                  .summary = "any of the problem's numbers read at run time, products summed in order",
                  .reads_open_sizes = true,
                  .applies = [](const Problem &p) { return !p.traits().deformable && p.has_open_sizes(); },
                  .runs_on = is_processor,
                  .is_profitable = [](const Problem &p, const TargetModel &) { return of_known_sizes(p) == p; }}),
    row<CompletingPhases<Depthwise, complete_phases>>(
        {.name = "depthwise",
         .revision = 2,
         .summary = "each channel by itself, its taps unrolled",
         .applies = [](const Problem &p) { return depthwise::applies(complete_phases(p)); },
         .runs_on = is_processor,
         .is_profitable = depthwise_is_profitable}),
    row<Amx>({.name = "amx",
              .former_name = "tiles",
              .revision = 2,
              .summary = "matrix tiles of channels and pixels, products summed in order",
              .applies = amx_applies,
              .runs_on = amx_runs_on,
              .is_profitable = amx_is_profitable}),
    row<F16Accumulate>({.name = "f16_accumulate",
                        .former_name = "half",
                        .summary = "a register tile of channels and pixels, products summed in float16 at first",
                        .applies = f16_accumulate_applies,
                        .runs_on = f16_accumulate_runs_on}),
    row<InnerProduct>({.name = "inner_product",
                       .summary = "vectors of channels-last x's channels, whose lanes are added up at the end of a sum",
                       .applies = inner_product_applies,
                       .runs_on = is_processor,
                       .is_profitable = inner_product_is_profitable}),
    row<SpreadingOutputs<CompletingPhases<Kn2row, complete_phases>>>(
        {.name = "kn2row",
         .summary = "a row's taps as output channels of products along it, shifted and added up",
         .applies = [](const Problem &p) { return kn2row_applies(kn2row_problem(p)); },
         .runs_on = is_processor,
         .is_profitable = [](const Problem &p,
                             const TargetModel &t) { return kn2row_is_profitable(kn2row_problem(p), t); }}),
    row<SpreadingOutputs<CompletingPhases<Winograd, complete_merged_phases>>>(
        {.name = "winograd",
         .revision = 4,
         .summary = "tiles of outputs by fewer products, all tiles batched for each point",
         .applies = [](const Problem &p) { return winograd_applies(winograd_problem(p)); },
         .runs_on = is_processor,
         .is_profitable = [](const Problem &p,
                             const TargetModel &t) { return winograd_is_profitable(winograd_problem(p), t); }}),
    row<Strassen>({.name = "strassen",
                   .summary = "seven products of halves for eight: positions, input and output channels",
                   .applies = strassen_applies,
                   .runs_on = strassen_runs_on,
                   .is_profitable = strassen_is_profitable}),
    row<Gemm>({.name = "gemm",
               .summary = "positions by input channels times those by output channels, a block of the sum at a time",
               .applies = gemm_applies,
               .runs_on = gemm_runs_on,
               .is_profitable = gemm_is_profitable}),
    row<Direct>({.name = "direct",
                 .summary = "a register tile of channels and pixels, products summed in order",
                 .applies = is_fixed_conv,
                 .runs_on = is_processor}),
    row<SpreadingOutputs<Direct>>({.name = "polyphase",
                                   .summary = "one stride-1 direct convolution for each output phase",
                                   .applies = is_fixed_conv_transpose,
                                   .runs_on = is_processor}),
    row<Deformable>({.name = "deformable",
                     .former_name = "sampled",
                     .summary = "samples gathered block by block, times a register tile of channels and pixels",
                     .applies = [](const Problem &p) { return p.traits().deformable && !is_empty(p); },
                     .runs_on = is_processor}),
    row<Definition>({.name = "definition",
                     .summary = "the operator's definition as it stands, an element after the other",
                     .is_definition = true,
                     .applies = [](const Problem &p) { return !is_empty(p); },
                     .runs_on = is_processor}),
    row<EmptyGpu>({.name = "gpu_empty",
                   .summary = "x or y has no elements: bias, residual and activation alone",
                   .applies = is_empty,
                   .runs_on = is_gpu}),
    row<WinogradGpu>({.name = "gpu_winograd",
                      .summary = "tiles of outputs by fewer products, all tiles for each point together",
                      .applies = winograd_gpu_applies,
                      .runs_on = is_gpu,
                      // Only where a decision asks for it: what it gains on a GPU was not measured yet.
                      .is_profitable = [](const Problem &, const TargetModel &) { return false; }}),
    row<DepthwiseGpu>({.name = "gpu_depthwise",
                       .summary = "each channel by itself, its taps unrolled, a tile of positions a thread",
                       .applies = [](const Problem &p) { return depthwise::applies(p) && depthwise::unrolls_taps(p); },
                       .runs_on = is_gpu}),
    row<MmaGpu>(
        {.name = "gpu_mma",
         .summary = "matrix instructions of float16, bfloat16 or two TF32, a tile of channels and pixels a warp",
         .applies = mma::applies,
         .runs_on = mma::runs_on,
         .is_profitable = mma::is_profitable}),
    row<JoiningPhases<StagedGpu>>(
        {.name = "gpu_staged",
         .summary = "chunks of weights and input in shared memory, sums of a block in its threads' registers",
         .applies =
             [](const Problem &p) { return (is_fixed_conv(p) || is_fixed_conv_transpose(p)) && staged::applies(p); },
         .runs_on = [](const Problem &p,
                       const TargetModel &target) { return target.is_gpu() && staged::fits(join_phases(p), target); }}),
    row<JoiningPhases<DirectGpu>>({.name = "gpu_direct",
                                   .summary = "a tile of channels and pixels a thread, products summed in order",
                                   .applies = is_fixed_conv,
                                   .runs_on = is_gpu}),
    row<JoiningPhases<DirectGpu>>(
        {.name = "gpu_polyphase",
         .revision = 2,
         .summary = "stride-1 direct convolutions of output phases, which are channels where they read alike",
         .applies = is_fixed_conv_transpose,
         .runs_on = is_gpu}),
    row<OfSamples<MmaGpu>>(
        {.name = "gpu_mma_samples",
         .summary = "samples gathered into the workspace, times weights by matrix instructions",
         .applies = [](const Problem &p) { return is_fixed(p, Operator::deform_conv) && mma::samples_apply(p); },
         .runs_on = mma::runs_on}),
    row<OfSamples<StagedGpu>>(
        {.name = "gpu_staged_samples",
         .summary = "samples gathered into the workspace, times weights by chunks in shared memory",
         .applies = [](const Problem &p) { return is_fixed(p, Operator::deform_conv) && staged::samples_apply(p); },
         .runs_on = is_gpu}),
    row<DeformableGpu>({.name = "gpu_deformable",
                        .former_name = "gpu_sampled",
                        .summary = "samples gathered into the workspace, times a tile of channels and points a thread",
                        .applies = [](const Problem &p) { return is_fixed(p, Operator::deform_conv); },
                        .runs_on = is_gpu}),
    row<DefinitionGpu>({.name = "gpu_definition",
                        .summary = "the operator's definition as it stands, an element a thread",
                        .is_definition = true,
                        .applies = [](const Problem &p) { return !p.has_open_sizes() && !is_empty(p); },
                        .runs_on = is_gpu}),
};

}  // namespace

std::span<const Algorithm> algorithms() {
    return list;
}

const Algorithm &find_algorithm(const std::string &name) {
    std::string known;
    for (const Algorithm &algorithm : list) {
        if (name == algorithm.name) {
            return algorithm;
        }
        known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
    }
    throw std::invalid_argument("algorithm \"" + name + "\" is not one of " + known);
}

}  // namespace kiln