/*
 * standin.h: a TensorFlow without TensorFlow, to test the plug-in: it
 * implements the functions of tf/abi.h under TensorFlow's own soname, takes
 * what the plug-in registers, and runs single kernels. There is no graph: a
 * test makes nodes and hands tensors from one to the next.
 *
 * Buffers are counted like TensorFlow's: an input is handed on to the output
 * when the run holds the only reference to it.
 */
#ifndef PSD_TESTS_TF_STANDIN_H
#define PSD_TESTS_TF_STANDIN_H

#include "tf/abi.h"

#define STANDIN_API     __attribute__((visibility("default")))
#define STANDIN_ARGS    8
#define STANDIN_OUTPUTS 16
#define STANDIN_DIMS    8

/* What was registered; strings are the specs as given. */
struct standin_op {
    char name[64];
    char attrs[STANDIN_ARGS][96];
    char inputs[STANDIN_ARGS][96];
    char outputs[STANDIN_ARGS][96];
    int attr_count, input_count, output_count;
    bool stateful;
    tf_shape_call shape;
};
struct standin_kernel {
    char op[64];
    char device[16];
    char host[2 * STANDIN_ARGS][32]; /* arguments in host memory */
    int host_count;
    tf_create_call create;
    tf_compute_call compute;
    tf_delete_call del;
};
STANDIN_API const struct standin_op *standin_op(const char *name);
STANDIN_API const struct standin_kernel *standin_kernel(const char *op,
                                                        const char *device);
STANDIN_API int standin_op_count(void);

/* Attributes of a node; ends with a NULL name. A list when count >= 0. */
struct standin_attr {
    const char *name;
    const char *const *values;
    int count; /* -1: one string */
};
struct standin_node {
    const struct standin_kernel *kernel;
    void *state;
    int code; /* of the construction */
    char message[1024];
};
STANDIN_API void standin_make(struct standin_node *node, const char *op,
                              const char *device,
                              const struct standin_attr *attrs);
STANDIN_API void standin_drop(struct standin_node *node);

/* One computation. Takes the inputs; outputs are the caller's. */
struct standin_run {
    int64_t step;
    TF_Tensor *inputs[STANDIN_OUTPUTS];
    int input_count;
    TF_Tensor *outputs[STANDIN_OUTPUTS];
    int code;
    char message[1024];
};
STANDIN_API void standin_compute(const struct standin_node *node,
                                 struct standin_run *run);

/* Of TensorFlow's own, what tests call. */
STANDIN_API TF_Tensor *TF_AllocateTensor(int type, const int64_t *dims,
                                         int ndims, size_t size);
STANDIN_API void TF_DeleteTensor(TF_Tensor *tensor);
STANDIN_API int TF_TensorType(const TF_Tensor *tensor);
STANDIN_API int TF_NumDims(const TF_Tensor *tensor);
STANDIN_API int64_t TF_Dim(const TF_Tensor *tensor, int index);
STANDIN_API size_t TF_TensorByteSize(const TF_Tensor *tensor);
STANDIN_API void *TF_TensorData(const TF_Tensor *tensor);

/* A tensor of one dimension (count < 0: a scalar), with a copy of data. */
STANDIN_API TF_Tensor *standin_tensor(int type, int64_t count, size_t unit,
                                      const void *data);
STANDIN_API TF_Tensor *standin_reshape(TF_Tensor *tensor, int ndims,
                                       const int64_t *dims);
STANDIN_API TF_Tensor *standin_share(const TF_Tensor *tensor);
/* Tensors and buffers that somebody holds. */
STANDIN_API long standin_live(void);
/* The next allocations of outputs fail. */
STANDIN_API void standin_no_memory(bool on);

/* Ranks and dimensions; rank -1: unknown. */
struct standin_shape {
    int rank;
    int64_t dims[STANDIN_DIMS];
};
STANDIN_API int standin_infer(const char *op,
                              const struct standin_shape *inputs, int count,
                              struct standin_shape *outputs);

#endif
