/*
 * poseidon_step.h: what adapters of frameworks use beside poseidon.h.
 */
#ifndef POSEIDON_STEP_H
#define POSEIDON_STEP_H

#include "poseidon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a framework's memory in the arena --------------------------------- */

/* Direct the large blocks (64 KiB or more) that `library`, which is loaded
 * already ("libc10.so" for torch), takes with posix_memalign to the session's
 * arena, while redirection is on. What lies there is exchanged in place. The
 * rest, and whatever the arena has no room for, goes to the allocator that the
 * library used before. A forked child takes nothing from the arena.
 * PSD_ENOSUP, with a sentence: the calls of that library are not found, or the
 * session is a job of one, which shares nothing. */
PSD_API psd_status psd_redirect_install(struct psd_session *session,
                                        const char *library);

/* From now on, until as many calls of psd_redirect_off. For all threads of the
 * process. Cheap; no effect where nothing is installed. Any thread. */
PSD_API void psd_redirect_on(struct psd_session *session);
PSD_API void psd_redirect_off(struct psd_session *session);

/* No more blocks in the arena. Those that the library holds stay valid, also
 * after psd_close, which does this as well: the arena's memory is given back
 * with the last of them. */
PSD_API void psd_redirect_remove(struct psd_session *session);

#ifdef __cplusplus
}
#endif

#endif /* POSEIDON_STEP_H */
