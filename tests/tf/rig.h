/*
 * rig.h: the plug-in on the stand-in runtime: its ops as functions, one node
 * made, run and dropped per call. An output that is NULL means that the op
 * failed; rig_said then has what it said.
 */
#ifndef PSD_TESTS_TF_RIG_H
#define PSD_TESTS_TF_RIG_H

#include "standin.h"
#include "tf/plugin.h"

/* The plug-in's calls, found in it as Python finds them. */
struct rig_plugin {
    const char *(*ready)(void);
    psd_status (*attach)(struct psd_session *, const void *);
    void (*detach)(void);
    psd_status (*add)(const char *, const struct psd_tf_spec *, uint32_t);
    psd_status (*step)(double, psd_op);
    void (*stop_at_nan)(int);
    int (*bad)(const char *, const char **, uint32_t *);
    uint64_t (*steps)(const char *);
    void (*spoil)(const char *, uint64_t);
    psd_status (*settle)(void);
    const char *(*error)(void);
    uint32_t (*events)(struct psd_tf_event *, uint32_t);
};
extern struct rig_plugin rig;
extern bool rig_finite;                   /* of the last wait */
extern _Thread_local int rig_code;        /* TF_Code of the last op */
extern _Thread_local char rig_said[1024]; /* ... and its message */

/* Load the plug-in at `path`; false: there is no such file. */
bool rig_load(const char *path, struct rig_plugin *plugin);
/* Open a session and attach it; register comes next. */
struct psd_session *rig_open(void);
void rig_close(struct psd_session *session);

TF_Tensor *rig_floats(const float *values, int64_t count);
TF_Tensor *rig_same(float value, int64_t count);

struct rig_push {
    const char *key;
    int64_t run;
    const char *op; /* NULL: "step" */
    bool eager;
    bool disabled;
    double weight;      /* 0: 1; negative as it is */
    const char *device; /* NULL: CPU */
};
/* Take their inputs. */
TF_Tensor *rig_push(const struct rig_push *push, TF_Tensor *grad);
TF_Tensor *rig_push_sparse(const struct rig_push *push, TF_Tensor *values,
                           TF_Tensor *indices);
/* tensors: in and out. False: failed. */
bool rig_wait(const char *group, const char *const *keys, int count,
              TF_Tensor **tensors, bool disabled);
bool rig_take(const char *key, TF_Tensor *token, TF_Tensor *indices,
              bool disabled, TF_Tensor **values_p, TF_Tensor **indices_p);
bool rig_share(const char *const *keys, int count, const char *mode,
               TF_Tensor **tensors);
bool rig_broadcast(const char *const *keys, int count, TF_Tensor **tensors);
/* The tensor's first element; drops it. */
float rig_first(TF_Tensor *tensor);

#endif
