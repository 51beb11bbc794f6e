/* What the Python package calls, by ctypes: C functions and plain structs, so that one build serves every Python.
 *
 * Functions return a kiln_status_code; kiln_python_message tells what was wrong with the last one in this thread that
 * failed. Texts that are handed out live as long as what they belong to. */
#ifndef KILN_PYTHON_BRIDGE_H
#define KILN_PYTHON_BRIDGE_H

#include "kiln/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using) */

typedef struct kiln_python_spec kiln_python_spec; /* a SPEC that was read: layers under their dialects' rules */
typedef struct kiln_python_plan kiln_python_plan; /* one of its layers, for known shapes, and the kernel that runs it */
typedef struct kiln_python_team kiln_python_team; /* threads that share a call's work */

/* Tensors of one run, by the indices that the plan's facts name: dense, in the layouts named there; null where the
 * layer has none. */
typedef struct kiln_python_run_arguments {
    void *const *tensors; /* as many as the facts' tensor_count */
    const void *packed;
    void *workspace;
    int64_t workspace_bytes;
} kiln_python_run_arguments;

const char *kiln_python_message(void);

/* Reads a layers file or a model. `share` is the folder share/kiln that belongs to this library; `shapes` are lines
 * like INPUT=1x3x?x?; a model's weights are written to `weights`, unless that is "". */
int32_t kiln_python_read(const char *path, const char *share, const char *shapes, const char *weights,
                         kiln_python_spec **spec);
/* JSON: {"name","layers":[{"name","operator","x","w","weights","bias_values"}]}; null stands for an open size and for
 * no file. */
const char *kiln_python_spec_text(const kiln_python_spec *spec);
void kiln_python_free_spec(kiln_python_spec *spec);

/* Binds a layer to a kernel of `library`. The shapes fill in what the layer leaves open. */
int32_t kiln_python_plan_layer(const kiln_python_spec *spec, const char *layer, const kiln_library *library,
                               const int64_t *x, int32_t x_rank, const int64_t *w, int32_t w_rank, int32_t workers,
                               kiln_python_plan **plan);
/* JSON: {"problem","algorithm","schedule","target","packed_bytes","workspace_bytes","tensors":{"x":{"shape","dtype",
 * "channels_last","index"},...},"tensor_count"}: shapes in the dialect's order; channels_last is null where that is the
 * order in memory too; index is the tensor's place in kiln_python_run_arguments. */
const char *kiln_python_plan_text(const kiln_python_plan *plan);
int32_t kiln_python_pack(const kiln_python_plan *plan, const void *w, void *packed);
int32_t kiln_python_run(const kiln_python_plan *plan, const kiln_python_run_arguments *arguments,
                        kiln_python_team *team);
void kiln_python_free_plan(kiln_python_plan *plan);

int32_t kiln_python_make_team(int32_t workers, kiln_python_team **team);
void kiln_python_free_team(kiln_python_team *team);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
