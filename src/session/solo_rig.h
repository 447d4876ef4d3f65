/*
 * solo_rig.h: a session outside a job, for the tests of the public calls.
 */
#ifndef PSD_SESSION_SOLO_RIG_H
#define PSD_SESSION_SOLO_RIG_H

#include "base/claim.h"
#include "poseidon.h"

extern char **environ;

/* The tests may run inside a job: forget it. */
static inline void leave_job(void)
{
    char names[64][64];
    unsigned count = 0;

    for (char **entry = environ; *entry != NULL && count < 64; entry++) {
        if (strncmp(*entry, "PSD_", 4) == 0) {
            snprintf(names[count++], sizeof(names[0]), "%.*s",
                     (int)strcspn(*entry, "="), *entry);
        }
    }
    while (count > 0) {
        unsetenv(names[--count]);
    }
}

static inline int set_up(void **state)
{
    struct psd_session *session = NULL;

    leave_job();
    *state = NULL;
    if (psd_open(&session) != PSD_OK) {
        return -1;
    }
    *state = session;
    return 0;
}

static inline int tear_down(void **state)
{
    psd_close(*state);
    return 0;
}

static const struct psd_spec weight = { .name = "weight",
                                        .dtype = PSD_FLOAT32, .count = 100 };

static inline psd_tensor registered(struct psd_session *session,
                                    const struct psd_spec *spec)
{
    psd_tensor tensor = { UINT32_MAX };

    assert_int_equal(psd_register(session, spec, 1, &tensor), PSD_OK);
    return tensor;
}

/* The call broke the contract, the sentence has `part`, and the session
 * goes on. */
#define assert_refused(session, call, part)                            \
    do {                                                               \
        assert_int_equal(call, PSD_EINVAL);                            \
        if (strstr(psd_error(session), part) == NULL) {                \
            fail_msg("'%s' is not in '%s'", part, psd_error(session)); \
        }                                                              \
        assert_int_equal(psd_barrier(session), PSD_OK);                \
    } while (0)

#endif
