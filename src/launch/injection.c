/* injection.c: see injection.h. */
#define _GNU_SOURCE
#include "launch/injection.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "launch/spawn.h"

/* From the folder above bin: an installed tree, or one built in place. */
static const char *const trees[] = {"lib/poseidon/python", "python"};
static const char *const libraries[] = {"lib/libposeidon.so.0",
                                        "libposeidon.so.0"};

/* Of the two the first that is there; `inside` is a file that proves it. */
static bool find(const char *root, const char *const names[2],
                 const char *inside, char path[PATH_MAX])
{
    for (int i = 0; i < 2; i++) {
        int length =
            snprintf(path, PATH_MAX, "%s/%s%s", root, names[i], inside);

        if (length > 0 && length < PATH_MAX && access(path, R_OK) == 0) {
            path[(size_t)length - strlen(inside)] = '\0';
            return true;
        }
    }
    return false;
}

static const char *value_of(const struct launch_words *environment,
                            const char *name)
{
    size_t size = strlen(name);

    for (uint32_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->words[i], name, size) == 0 &&
            environment->words[i][size] == '=') {
            return environment->words[i] + size + 1;
        }
    }
    return "";
}

/* An empty entry would stand for the working directory: no colon without
 * something behind it. */
static psd_status put_in_front(struct launch_words *environment,
                               const char *tree)
{
    const char *rest = value_of(environment, "PYTHONPATH");
    size_t size = 2 * strlen(tree) + strlen(rest) + sizeof("/boot::");
    char *joined = mem_zalloc(size);
    psd_status status;

    if (joined == NULL) {
        return PSD_ENOMEM;
    }
    snprintf(joined, size, "%s/boot:%s%s%s", tree, tree,
             rest[0] == '\0' ? "" : ":", rest);
    status = spawn_environment_set(environment, "PYTHONPATH", joined);
    mem_free(joined);
    return status;
}

psd_status injection_add_from(const char *bin, struct launch_words *environment)
{
    char root[PATH_MAX];
    char path[PATH_MAX];
    char *slash;
    /* Nobody has claimed this worker, even if this job runs inside another. */
    psd_status status = spawn_environment_set(environment, "PSD_BOOT", "");

    snprintf(root, sizeof(root), "%s", bin);
    slash = strrchr(root, '/');
    if (slash == NULL || status != PSD_OK) {
        return status;
    }
    *slash = '\0';
    if (find(root, trees, "/boot/sitecustomize.py", path)) {
        status = put_in_front(environment, path);
    }
    if (status == PSD_OK && find(root, libraries, "", path)) {
        status = spawn_environment_set(environment, "PSD_LIBRARY", path);
    }
    return status;
}

psd_status injection_add(struct launch_words *environment)
{
    char self[PATH_MAX] = "";
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    self[size < 0 ? 0 : size] = '\0';
    slash = strrchr(self, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    return injection_add_from(self, environment);
}
