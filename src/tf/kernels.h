/*
 * kernels.h: the kernels behind the ops of plugin.h, as TensorFlow calls them:
 * create once per node, compute from any of its threads, delete.
 */
#ifndef PSD_TF_KERNELS_H
#define PSD_TF_KERNELS_H

#include "tf/abi.h"

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

#endif
