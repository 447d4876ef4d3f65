/* rig.c: see rig.h. */
#define _GNU_SOURCE
#include "rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct rig_plugin rig;
bool rig_finite;
_Thread_local int rig_code;
_Thread_local char rig_said[1024];

bool rig_load(const char *path, struct rig_plugin *plugin)
{
    static const char *const names[] = {
        "ready", "attach", "detach", "register", "step",  "stop_at_nan",
        "bad",   "steps",  "spoil",  "settle",   "error", "events",
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *addresses[sizeof(names) / sizeof(names[0])];

    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];

        snprintf(name, sizeof(name), "psd_tf_%s", names[i]);
        addresses[i] = dlsym(library, name);
    }
    _Static_assert(sizeof(addresses) == sizeof(*plugin), "one each");
    memcpy(plugin, addresses, sizeof(*plugin));
    return true;
}

struct psd_session *rig_open(void)
{
    psd_status (*witness)(struct psd_session **) = psd_open;
    struct psd_session *session;
    const void *address;

    memcpy(&address, &witness, sizeof(address));
    if (psd_open(&session) != PSD_OK) {
        fprintf(stderr, "%s\n", psd_error(NULL));
        return NULL;
    }
    if (rig.attach(session, address) != PSD_OK) {
        fprintf(stderr, "%s\n", rig.error());
        return NULL;
    }
    return session;
}

void rig_close(struct psd_session *session)
{
    psd_close(session);
    rig.detach();
}

TF_Tensor *rig_floats(const float *values, int64_t count)
{
    return standin_tensor(TF_FLOAT, count, sizeof(float), values);
}

TF_Tensor *rig_same(float value, int64_t count)
{
    TF_Tensor *tensor =
        TF_AllocateTensor(TF_FLOAT, &count, 1, (size_t)count * sizeof(float));

    for (int64_t i = 0; i < count; i++) {
        ((float *)TF_TensorData(tensor))[i] = value;
    }
    return tensor;
}

static TF_Tensor *rig_bool(bool value)
{
    unsigned char byte = value;

    return standin_tensor(TF_BOOL, -1, 1, &byte);
}

static void rig_run(const char *op, const char *device,
                    const struct standin_attr *attrs, struct standin_run *run)
{
    struct standin_node node;

    standin_make(&node, op, device == NULL ? "CPU" : device, attrs);
    if (node.code == TF_OK) {
        standin_compute(&node, run);
    } else {
        run->code = node.code;
        snprintf(run->message, sizeof(run->message), "%s", node.message);
        for (int i = 0; i < run->input_count; i++) {
            TF_DeleteTensor(run->inputs[i]);
        }
    }
    standin_drop(&node);
    rig_code = run->code;
    snprintf(rig_said, sizeof(rig_said), "%s", run->message);
}

static TF_Tensor *push_any(const char *op, const struct rig_push *push,
                           struct standin_run *run)
{
    const char *how = push->op == NULL ? "step" : push->op;
    const char *mode = push->eager ? "eager" : "graph";
    const struct standin_attr attrs[] = {
        { "key", &push->key, -1 },
        { "op", &how, -1 },
        { "mode", &mode, -1 },
        { NULL, NULL, 0 },
    };
    double weight = push->weight == 0 ? 1 : push->weight;

    run->step = push->run;
    run->inputs[run->input_count++] = rig_bool(!push->disabled);
    run->inputs[run->input_count++] =
        standin_tensor(TF_DOUBLE, -1, sizeof(weight), &weight);
    rig_run(op, push->device, attrs, run);
    return run->outputs[0];
}

TF_Tensor *rig_push(const struct rig_push *push, TF_Tensor *grad)
{
    struct standin_run run = { .inputs = { grad }, .input_count = 1 };

    return push_any("PsdPush", push, &run);
}

TF_Tensor *rig_push_sparse(const struct rig_push *push, TF_Tensor *values,
                           TF_Tensor *indices)
{
    struct standin_run run = { .inputs = { values, indices },
                               .input_count = 2 };

    return push_any("PsdPushSparse", push, &run);
}

bool rig_wait(const char *group, const char *const *keys, int count,
              TF_Tensor **tensors, bool disabled)
{
    const struct standin_attr attrs[] = {
        { "group", &group, -1 },
        { "keys", keys, count },
        { NULL, NULL, 0 },
    };
    struct standin_run run = { .input_count = count };

    memcpy(run.inputs, tensors, (size_t)count * sizeof(*tensors));
    run.inputs[run.input_count++] = rig_bool(!disabled);
    run.inputs[run.input_count++] = rig_bool(true);
    rig_run("PsdWait", NULL, attrs, &run);
    memcpy(tensors, run.outputs, (size_t)count * sizeof(*tensors));
    if (run.code == TF_OK) {
        rig_finite = *(unsigned char *)TF_TensorData(run.outputs[count]) != 0;
        TF_DeleteTensor(run.outputs[count]);
    }
    return run.code == TF_OK;
}

bool rig_take(const char *key, TF_Tensor *token, TF_Tensor *indices,
              bool disabled, TF_Tensor **values_p, TF_Tensor **indices_p)
{
    const struct standin_attr attrs[] = { { "key", &key, -1 },
                                          { NULL, NULL, 0 } };
    struct standin_run run = {
        .inputs = { token, indices, rig_bool(!disabled) }, .input_count = 3
    };

    rig_run("PsdTakeSparse", NULL, attrs, &run);
    *values_p = run.outputs[0];
    *indices_p = run.outputs[1];
    return run.code == TF_OK;
}

static bool run_keyed(const char *op, const char *const *keys, int count,
                      const char *mode, TF_Tensor **tensors)
{
    const struct standin_attr attrs[] = { { "keys", keys, count },
                                          { mode == NULL ? NULL : "mode",
                                            &mode, -1 },
                                          { NULL, NULL, 0 } };
    struct standin_run run = { .input_count = count };

    memcpy(run.inputs, tensors, (size_t)count * sizeof(*tensors));
    rig_run(op, NULL, attrs, &run);
    memcpy(tensors, run.outputs, (size_t)count * sizeof(*tensors));
    return run.code == TF_OK;
}

bool rig_broadcast(const char *const *keys, int count, TF_Tensor **tensors)
{
    return run_keyed("PsdBroadcast", keys, count, NULL, tensors);
}

bool rig_share(const char *const *keys, int count, const char *mode,
               TF_Tensor **tensors)
{
    return run_keyed("PsdShare", keys, count, mode, tensors);
}

float rig_first(TF_Tensor *tensor)
{
    float value = *(float *)TF_TensorData(tensor);

    TF_DeleteTensor(tensor);
    return value;
}
