/*
 * kernels.h: the kernels behind the ops of plugin.h, as TensorFlow calls them:
 * create once per node, compute from any of its threads, delete.
 */
#ifndef PSD_TF_KERNELS_H
#define PSD_TF_KERNELS_H

#include "tf/plug.h"

/* One node of the graph. */
struct kernel {
    struct group *group;
    struct key **keys;
    uint32_t count;
    int op; /* psd_op; 0: what psd_tf_step says */
    bool eager;
    bool place; /* PsdShare: the values are where they are to be */
};

void *push_create(TF_OpKernelConstruction *construction);
void push_compute(void *kernel, TF_OpKernelContext *context);
void push_sparse_compute(void *kernel, TF_OpKernelContext *context);
void *share_create(TF_OpKernelConstruction *construction);
void *take_create(TF_OpKernelConstruction *construction);
void take_compute(void *kernel, TF_OpKernelContext *context);
void *wait_create(TF_OpKernelConstruction *construction);
void wait_compute(void *kernel, TF_OpKernelContext *context);
void *broadcast_create(TF_OpKernelConstruction *construction);
void broadcast_compute(void *kernel, TF_OpKernelContext *context);
void share_compute(void *kernel, TF_OpKernelContext *context);
void kernel_delete(void *kernel);

/* kernels.c: one computation of a node: everything that it needs, and its
 * end. */
struct call {
    TF_OpKernelContext *context;
    TF_Status *status;
    struct fault fault;
};
void call_begin(struct call *call, TF_OpKernelContext *context);
void call_end(struct call *call, psd_status result);
psd_status call_input(struct call *call, int index, TF_Tensor **tensor_p);
psd_status call_output(struct call *call, int index, const TF_Tensor *tensor);
/* An output like input `index`, in its memory if nobody else has it. `in_p`:
 * the input, when the output is other memory; else NULL. */
psd_status call_room(struct call *call, int index, TF_Tensor **in_p,
                     TF_Tensor **out_p);
/* Is input `index` what the key was registered for? */
psd_status dense_check(struct call *call, const struct key *key, int index);

/* share.c: the first time rank 0's value is everybody's, collectively; later
 * `data` gets what the value is by now. */
psd_status share_begin(struct key *key, void *data);

/* kernels.c: our failure as TensorFlow's, and what it refused as ours. */
void status_of(TF_Status *status, const struct fault *fault);
psd_status fault_tf(struct fault *fault, const TF_Status *status);

#endif
