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
};

void *push_create(TF_OpKernelConstruction *construction);
void push_compute(void *kernel, TF_OpKernelContext *context);
void push_sparse_compute(void *kernel, TF_OpKernelContext *context);
void *take_create(TF_OpKernelConstruction *construction);
void take_compute(void *kernel, TF_OpKernelContext *context);
void *wait_create(TF_OpKernelConstruction *construction);
void wait_compute(void *kernel, TF_OpKernelContext *context);
void *broadcast_create(TF_OpKernelConstruction *construction);
void broadcast_compute(void *kernel, TF_OpKernelContext *context);
void kernel_delete(void *kernel);

/* kernels.c: our failure as TensorFlow's, and what it refused as ours. */
void status_of(TF_Status *status, const struct fault *fault);
psd_status fault_tf(struct fault *fault, const TF_Status *status);

#endif
