/*
 * attributes.c: kernels are made from the attributes of their nodes, and
 * deleted; see kernels.h.
 */
#include "base/log.h"
#include "base/mem.h"
#include "tf/kernels.h"

/* ---- attributes -------------------------------------------------------- */

static psd_status attr_text(TF_OpKernelConstruction *construction,
                            const char *name, char **text_p,
                            struct fault *fault)
{
    TF_Status *status = tf.NewStatus();
    int32_t items = 0, size = 0;
    psd_status result = PSD_OK;
    char *text = NULL;

    tf.OpKernelConstruction_GetAttrSize(construction, name, &items, &size,
                                        status);
    if (tf.GetCode(status) == TF_OK) {
        text = mem_zalloc((size_t)size + 1); /* it is not terminated */
        if (text == NULL) {
            result = fault_set(fault, PSD_ENOMEM, "no memory for %s", name);
        } else {
            tf.OpKernelConstruction_GetAttrString(construction, name, text,
                                                  (size_t)size, status);
        }
    }
    if (result == PSD_OK && tf.GetCode(status) != TF_OK) {
        result = fault_tf(fault, status);
    }
    tf.DeleteStatus(status);
    if (result != PSD_OK) {
        mem_free(text);
        return result;
    }
    *text_p = text;
    return PSD_OK;
}

/* Is it `wanted`? Attributes with few values. */
static psd_status attr_is(TF_OpKernelConstruction *construction,
                          const char *name, const char *wanted, bool *is_p,
                          struct fault *fault)
{
    char *text = NULL;
    psd_status status = attr_text(construction, name, &text, fault);

    if (status == PSD_OK) {
        *is_p = strcmp(text, wanted) == 0;
        mem_free(text);
    }
    return status;
}

static psd_status keys_enter(struct kernel *kernel, char *const *names,
                             const size_t *lengths, uint32_t count,
                             struct fault *fault)
{
    kernel->keys = mem_zalloc_array(count, sizeof(struct key *));
    for (uint32_t i = 0; i < count && kernel->keys != NULL; i++) {
        kernel->keys[i] = key_find(names[i], lengths[i]);
        if (kernel->keys[i] == NULL) {
            return fault_set(fault, PSD_ENOMEM, "no memory for a key");
        }
    }
    kernel->count = count;
    return kernel->keys == NULL
               ? fault_set(fault, PSD_ENOMEM, "no memory for keys")
               : PSD_OK;
}

static psd_status attr_key(TF_OpKernelConstruction *construction,
                           struct kernel *kernel, struct fault *fault)
{
    char *text = NULL;
    psd_status status = attr_text(construction, "key", &text, fault);

    if (status == PSD_OK) {
        size_t length = strlen(text);

        status = keys_enter(kernel, &text, &length, 1, fault);
        mem_free(text);
    }
    return status;
}

static psd_status attr_keys(TF_OpKernelConstruction *construction,
                            struct kernel *kernel, struct fault *fault)
{
    TF_Status *status = tf.NewStatus();
    int32_t items = 0, size = 0;
    psd_status result = PSD_OK;
    char **names = NULL;
    size_t *lengths = NULL;
    char *storage = NULL;

    tf.OpKernelConstruction_GetAttrSize(construction, "keys", &items, &size,
                                        status);
    if (tf.GetCode(status) == TF_OK) {
        names = mem_zalloc_array((size_t)items, sizeof(char *));
        lengths = mem_zalloc_array((size_t)items, sizeof(size_t));
        storage = mem_zalloc((size_t)size + 1);
        if (names == NULL || lengths == NULL || storage == NULL) {
            result = fault_set(fault, PSD_ENOMEM, "no memory for keys");
        } else {
            tf.OpKernelConstruction_GetAttrStringList(
                construction, "keys", names, lengths, items, storage,
                (size_t)size, status);
        }
    }
    if (result == PSD_OK && tf.GetCode(status) != TF_OK) {
        result = fault_tf(fault, status);
    }
    if (result == PSD_OK) {
        result = keys_enter(kernel, names, lengths, (uint32_t)items, fault);
    }
    mem_free(names);
    mem_free(lengths);
    mem_free(storage);
    tf.DeleteStatus(status);
    return result;
}

static void *kernel_end(TF_OpKernelConstruction *construction,
                        struct kernel *kernel, psd_status result,
                        const struct fault *fault)
{
    if (result != PSD_OK) {
        TF_Status *status = tf.NewStatus();

        status_of(status, fault);
        tf.OpKernelConstruction_Failure(construction, status);
        tf.DeleteStatus(status);
        kernel_delete(kernel);
        return NULL;
    }
    return kernel;
}

static struct kernel *kernel_begin(psd_status *result_p, struct fault *fault)
{
    struct kernel *kernel = mem_zalloc(sizeof(*kernel));

    *result_p = kernel == NULL
                    ? fault_set(fault, PSD_ENOMEM, "no memory for a kernel")
                    : PSD_OK;
    return kernel;
}

void kernel_delete(void *pointer)
{
    struct kernel *kernel = pointer;

    if (kernel != NULL) {
        mem_free(kernel->keys);
        mem_free(kernel);
    }
}

void *push_create(TF_OpKernelConstruction *construction)
{
    struct fault fault;
    psd_status status;
    struct kernel *kernel = kernel_begin(&status, &fault);
    bool mean = false, sum = false;

    if (status == PSD_OK) {
        status = attr_key(construction, kernel, &fault);
    }
    if (status == PSD_OK) {
        status = attr_is(construction, "op", "mean", &mean, &fault);
    }
    if (status == PSD_OK) {
        status = attr_is(construction, "op", "sum", &sum, &fault);
    }
    if (status == PSD_OK) {
        status = attr_is(construction, "mode", "eager", &kernel->eager, &fault);
        kernel->op = mean ? PSD_OP_MEAN : sum ? PSD_OP_SUM : 0;
    }
    return kernel_end(construction, kernel, status, &fault);
}

void *take_create(TF_OpKernelConstruction *construction)
{
    struct fault fault;
    psd_status status;
    struct kernel *kernel = kernel_begin(&status, &fault);

    if (status == PSD_OK) {
        status = attr_key(construction, kernel, &fault);
    }
    return kernel_end(construction, kernel, status, &fault);
}

void *broadcast_create(TF_OpKernelConstruction *construction)
{
    struct fault fault;
    psd_status status;
    struct kernel *kernel = kernel_begin(&status, &fault);

    if (status == PSD_OK) {
        status = attr_keys(construction, kernel, &fault);
    }
    return kernel_end(construction, kernel, status, &fault);
}

void *share_create(TF_OpKernelConstruction *construction)
{
    struct fault fault;
    psd_status status;
    struct kernel *kernel = kernel_begin(&status, &fault);

    if (status == PSD_OK) {
        status = attr_keys(construction, kernel, &fault);
    }
    if (status == PSD_OK) {
        status =
            attr_is(construction, "mode", "place", &kernel->place, &fault);
    }
    return kernel_end(construction, kernel, status, &fault);
}

void *wait_create(TF_OpKernelConstruction *construction)
{
    struct fault fault;
    psd_status status;
    struct kernel *kernel = kernel_begin(&status, &fault);
    char *name = NULL;

    if (status == PSD_OK) {
        status = attr_text(construction, "group", &name, &fault);
    }
    if (status == PSD_OK) {
        kernel->group = group_find(name, strlen(name));
        status = kernel->group == NULL
                     ? fault_set(&fault, PSD_ENOMEM, "no memory for a group")
                     : attr_keys(construction, kernel, &fault);
        mem_free(name);
    }
    return kernel_end(construction, kernel, status, &fault);
}
