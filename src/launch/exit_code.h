/*
 * exit_code.h: what psd_run and psd return for themselves, after sysexits.h.
 * Anything else is the culprit's own code, or 128 + the signal that killed it.
 */
#ifndef PSD_LAUNCH_EXIT_CODE_H
#define PSD_LAUNCH_EXIT_CODE_H

enum exit_code {
    EXIT_CODE_USAGE = 64,         /* the command line is wrong */
    EXIT_CODE_DIFFER = 65,        /* the workers' models or bits differ */
    EXIT_CODE_UNAVAILABLE = 69,   /* something or somebody is missing */
    EXIT_CODE_OS = 71,            /* the system refused; a limit is too low */
    EXIT_CODE_CANNOT_CREATE = 73, /* the output folder cannot be made */
    EXIT_CODE_STALLED = 75,       /* a stall, with --on-stall stop */
    EXIT_CODE_PROTOCOL = 76,      /* a member broke the protocol */
    EXIT_CODE_CONFIG = 78,        /* the cluster file is wrong */
    EXIT_CODE_NOT_EXECUTABLE = 126,
    EXIT_CODE_NOT_FOUND = 127,
    EXIT_CODE_SIGNAL = 128,      /* + the signal */
    EXIT_CODE_INTERRUPTED = 130, /* Ctrl-C */
};

#endif
