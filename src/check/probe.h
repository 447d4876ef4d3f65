/*
 * probe.h: what psd check starts on every host, over ssh as an agent is. It
 * tells what the host has, then connects to other probes and measures when it
 * is told to. It accepts only peers that prove the secret which came over its
 * stream, and ends at the end of the stream, or after PROBE_SILENCE_MS without
 * a word. One thread.
 */
#ifndef PSD_CHECK_PROBE_H
#define PSD_CHECK_PROBE_H

#define PROBE_SILENCE_MS 30000
#define PROBE_PYTHON_MS  5000 /* for Python to say what it has */

/* Be a probe; the stream is descriptors 0 and 1. Returns the exit code. */
int probe_run(void);

#endif
