/*
 * abi.c: find TensorFlow's functions; see abi.h. TensorFlow is loaded by
 * Python in a scope of its own, so that the linker would not find it; its
 * framework library is asked for by its soname, and only if it is there: a
 * second TensorFlow must never come into the process.
 */
#define _GNU_SOURCE
#include "tf/abi.h"

#include <dlfcn.h>

#include "base/log.h"

struct tf_abi tf;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define TF_ABI_ROW(type, name, parameters)                                     \
    { "TF_" #name, offsetof(struct tf_abi, name) },
    TF_ABI_MAP(TF_ABI_ROW)
#undef TF_ABI_ROW
};

bool tf_abi_find(char *error, size_t size)
{
    void *library = dlopen(TF_FRAMEWORK, RTLD_NOLOAD | RTLD_NOW);

    if (library == NULL) {
        snprintf(error, size,
                 "TensorFlow is not in this process (no " TF_FRAMEWORK
                 "): import tensorflow first, 2.15 or newer");
        return false;
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *address = dlsym(library, functions[i].name);

        if (address == NULL) {
            snprintf(error, size,
                     "this TensorFlow has no %s; Poseidon needs 2.15 or newer",
                     functions[i].name);
            return false;
        }
        memcpy((char *)&tf + functions[i].offset, &address, sizeof(address));
    }
    /* The library stays open: the functions are used until the end. */
    return true;
}
