/*
 * library.c: the tensors of a framework in the session's arena; the public
 * side of memory/redirect.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "memory/redirect.h"
#include "poseidon_step.h"
#include "session/session.h"

/* What a container may use; SIZE_MAX: no limit is known. */
static size_t group_memory(void)
{
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    uint64_t size = 0;

    if (file == NULL) {
        return SIZE_MAX;
    }
    if (fscanf(file, "%" SCNu64, &size) != 1) {
        size = 0; /* "max" */
    }
    fclose(file);
    return size == 0 ? SIZE_MAX : (size_t)size;
}

/* Half of the memory, shared by the workers of this host. What was once used
 * stays with the arena, so the rest has to do for everything else. */
static size_t redirect_limit(const struct psd_session *session)
{
    size_t group = group_memory();
    size_t all = session->arena->size; /* as large as the machine's memory */

    return (group < all ? group : all) / 2 / session->local_size;
}

static psd_status install(struct psd_session *session, const char *library,
                          char *why, size_t why_size)
{
    if (library == NULL) {
        snprintf(why, why_size, "psd_redirect_install needs a library's name");
        return PSD_EINVAL;
    }
    if (session->size == 1) {
        snprintf(why, why_size, "redirection: a worker alone shares nothing");
        return PSD_ENOSUP;
    }
    return redirect_install(session->arena, redirect_limit(session), library,
                            why, why_size);
}

psd_status psd_redirect_install(struct psd_session *session,
                                const char *library)
{
    char why[SESSION_ERROR_MAX] = "";
    psd_status status = install(session, library, why, sizeof(why));

    if (status != PSD_OK) {
        pthread_mutex_lock(&session->lock);
        session_refuse(session, "%s", why);
        pthread_mutex_unlock(&session->lock);
    }
    return status;
}

void psd_redirect_on(struct psd_session *session)
{
    redirect_on(session->arena);
}

void psd_redirect_off(struct psd_session *session)
{
    redirect_off(session->arena);
}
