/*
 * probe_state.h: what the files of the probe share; nobody else includes it.
 * probe.c speaks to psd check and looks around, probe_peer.c speaks to the
 * other probes.
 */
#ifndef PSD_CHECK_PROBE_STATE_H
#define PSD_CHECK_PROBE_STATE_H

#include <sys/types.h>

#include "base/list.h"
#include "check/probe.h"
#include "check/probe_message.h"

#define PROBE_TASKS_MAX  64   /* measurements under way */
#define PROBE_GUESTS_MAX 1024 /* links of other probes */
#define PROBE_TEXT_MAX   8192 /* of Python */
#define PROBE_NOTES      32   /* lines of the transport that are kept */
#define PROBE_NOTE_MAX   256

struct probe {
    struct psd_loop *loop;
    struct psd_link *link; /* to psd check */
    bool begun;
    bool done;
    uint64_t heard_ns;
    struct loop_timer look;
    struct probe_begin begin;
    struct probe_facts facts;

    pid_t python; /* 0: none, or reaped */
    int python_fd;
    struct loop_watch python_watch;
    struct loop_timer python_timer;
    char text[PROBE_TEXT_MAX];
    size_t text_size;

    struct psd_listener *listener;
    struct list tasks;
    unsigned task_count;
    struct list guests;
    unsigned guest_count;
    char notes[PROBE_NOTES][PROBE_NOTE_MAX]; /* a ring */
    unsigned note_next;
};

/* probe_peer.c: listen at the address of the facts, a port of the range. On
 * failure the facts say why. */
void probe_listen(struct probe *probe);
/* Begin to measure; PROBE_MEASURED follows, always. PSD_EPROTO: too many. */
psd_status probe_measure_start(struct probe *probe,
                               const struct probe_measure *order);
/* Drop every peer. */
void probe_peers_close(struct probe *probe);

#endif
