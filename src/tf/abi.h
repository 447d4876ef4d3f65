/*
 * abi.h: TensorFlow's C interface for ops and kernels, as far as it is used
 * here: facts of the binary interface of 2.15 and everything newer, so that no
 * TensorFlow is needed to build. The functions are found when the plug-in is
 * loaded, in the TensorFlow that is there already; see abi.c.
 */
#ifndef PSD_TF_ABI_H
#define PSD_TF_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TF_FRAMEWORK "libtensorflow_framework.so.2"

typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;

/* Enumerations of TensorFlow are ints here: their values are what counts. */
enum {
    TF_FLOAT = 1,
    TF_DOUBLE = 2,
    TF_INT32 = 3,
    TF_STRING = 7,
    TF_INT64 = 9,
    TF_BOOL = 10,
    TF_BFLOAT16 = 14,
    TF_HALF = 19
};
enum {
    TF_OK = 0,
    TF_INVALID_ARGUMENT = 3,
    TF_RESOURCE_EXHAUSTED = 8,
    TF_FAILED_PRECONDITION = 9,
    TF_UNIMPLEMENTED = 12,
    TF_INTERNAL = 13
};

typedef void (*tf_shape_call)(TF_ShapeInferenceContext *, TF_Status *);
typedef void *(*tf_create_call)(TF_OpKernelConstruction *);
typedef void (*tf_compute_call)(void *, TF_OpKernelContext *);
typedef void (*tf_delete_call)(void *);

/* One list: type, name without TF_, parameters. */
#define TF_ABI_MAP(X)                                                          \
    X(TF_Status *, NewStatus, (void))                                          \
    X(void, DeleteStatus, (TF_Status *))                                       \
    X(void, SetStatus, (TF_Status *, int, const char *))                       \
    X(int, GetCode, (const TF_Status *))                                       \
    X(const char *, Message, (const TF_Status *))                              \
    X(TF_OpDefinitionBuilder *, NewOpDefinitionBuilder, (const char *))        \
    X(void, OpDefinitionBuilderAddAttr,                                        \
      (TF_OpDefinitionBuilder *, const char *))                                \
    X(void, OpDefinitionBuilderAddInput,                                       \
      (TF_OpDefinitionBuilder *, const char *))                                \
    X(void, OpDefinitionBuilderAddOutput,                                      \
      (TF_OpDefinitionBuilder *, const char *))                                \
    X(void, OpDefinitionBuilderSetIsStateful,                                  \
      (TF_OpDefinitionBuilder *, bool))                                        \
    X(void, OpDefinitionBuilderSetShapeInferenceFunction,                      \
      (TF_OpDefinitionBuilder *, tf_shape_call))                               \
    X(void, RegisterOpDefinition, (TF_OpDefinitionBuilder *, TF_Status *))     \
    X(TF_ShapeHandle *, NewShapeHandle, (void))                                \
    X(void, DeleteShapeHandle, (TF_ShapeHandle *))                             \
    X(int64_t, ShapeInferenceContextNumInputs, (TF_ShapeInferenceContext *))   \
    X(void, ShapeInferenceContextGetInput,                                     \
      (TF_ShapeInferenceContext *, int, TF_ShapeHandle *, TF_Status *))        \
    X(void, ShapeInferenceContextSetOutput,                                    \
      (TF_ShapeInferenceContext *, int, TF_ShapeHandle *, TF_Status *))        \
    X(void, ShapeInferenceContextSetUnknownShape,                              \
      (TF_ShapeInferenceContext *, TF_Status *))                               \
    X(TF_ShapeHandle *, ShapeInferenceContextScalar,                           \
      (TF_ShapeInferenceContext *))                                            \
    X(TF_KernelBuilder *, NewKernelBuilder,                                    \
      (const char *, const char *, tf_create_call, tf_compute_call,            \
       tf_delete_call))                                                        \
    X(void, KernelBuilder_HostMemory, (TF_KernelBuilder *, const char *))      \
    X(void, RegisterKernelBuilder,                                             \
      (const char *, TF_KernelBuilder *, TF_Status *))                         \
    X(int64_t, StepId, (TF_OpKernelContext *))                                 \
    X(int, NumInputs, (TF_OpKernelContext *))                                  \
    X(void, GetInput, (TF_OpKernelContext *, int, TF_Tensor **, TF_Status *))  \
    X(void, SetOutput,                                                         \
      (TF_OpKernelContext *, int, const TF_Tensor *, TF_Status *))             \
    X(TF_Tensor *, AllocateOutput,                                             \
      (TF_OpKernelContext *, int, int, const int64_t *, int, size_t,           \
       TF_Status *))                                                           \
    X(TF_Tensor *, ForwardInputOrAllocateOutput,                               \
      (TF_OpKernelContext *, const int *, int, int, const int64_t *, int,      \
       int *, TF_Status *))                                                    \
    X(void, OpKernelContext_Failure, (TF_OpKernelContext *, TF_Status *))      \
    X(void, OpKernelConstruction_Failure,                                      \
      (TF_OpKernelConstruction *, TF_Status *))                                \
    X(void, OpKernelConstruction_GetAttrSize,                                  \
      (TF_OpKernelConstruction *, const char *, int32_t *, int32_t *,          \
       TF_Status *))                                                           \
    X(void, OpKernelConstruction_GetAttrString,                                \
      (TF_OpKernelConstruction *, const char *, char *, size_t, TF_Status *))  \
    X(void, OpKernelConstruction_GetAttrStringList,                            \
      (TF_OpKernelConstruction *, const char *, char **, size_t *, int,        \
       void *, size_t, TF_Status *))                                           \
    X(TF_Tensor *, AllocateTensor, (int, const int64_t *, int, size_t))        \
    X(void, DeleteTensor, (TF_Tensor *))                                       \
    X(int, TensorType, (const TF_Tensor *))                                    \
    X(int, NumDims, (const TF_Tensor *))                                       \
    X(int64_t, Dim, (const TF_Tensor *, int))                                  \
    X(size_t, TensorByteSize, (const TF_Tensor *))                             \
    X(void *, TensorData, (const TF_Tensor *))

struct tf_abi {
#define TF_ABI_FIELD(type, name, parameters) type(*name) parameters;
    TF_ABI_MAP(TF_ABI_FIELD)
#undef TF_ABI_FIELD
};

extern struct tf_abi tf;

/* Find all of them; false: `error` says what is missing. Once, before any
 * kernel runs. */
bool tf_abi_find(char *error, size_t size);

#endif
