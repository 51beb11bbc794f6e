#include "targets/core_model.h"

namespace kiln {

std::span<const CoreFigure> core_figures() {
    static constexpr CoreFigure figures[] = {
        {"fma_latency", "cycles of a multiply-add", &CoreModel::fma_latency},
        {"fma_per_cycle", "multiply-adds a cycle", &CoreModel::fma_per_cycle},
        {"fma_beside_adds", "the same, with as many additions", &CoreModel::fma_beside_adds},
        {"loads_per_cycle", "loads a cycle", &CoreModel::loads_per_cycle},
        {"stores_per_cycle", "stores a cycle", &CoreModel::stores_per_cycle},
        {"shuffles_per_cycle", "shuffles of two vectors a cycle", &CoreModel::shuffles_per_cycle},
        {"f16_widened_per_cycle", "float16 to float32, vectors a cycle", &CoreModel::f16_widened_per_cycle},
        {"bf16_widened_per_cycle", "bfloat16 to float32, vectors a cycle", &CoreModel::bf16_widened_per_cycle},
        {"int8_sums_per_cycle", "sums of int8_products a cycle", &CoreModel::int8_sums_per_cycle},
        {"bf16_sums_per_cycle", "sums of two bfloat16 products a cycle", &CoreModel::bf16_sums_per_cycle},
    };
    return figures;
}

std::span<const CoreCache> core_caches() {
    static constexpr CoreCache caches[] = {
        {"l1", &CoreModel::l1}, {"l2", &CoreModel::l2}, {"last", &CoreModel::last}, {"memory", &CoreModel::memory}};
    return caches;
}

}  // namespace kiln
