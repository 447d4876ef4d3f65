/* cause.c: see cause.h. */
#define _GNU_SOURCE
#include "report/cause.h"

#include <signal.h>

#include "base/banned.h"
#include "launch/exit_code.h"

#define EXCEPTION_MAX 200 /* bytes of a Python exception that are shown */

static const struct {
    int signo;
    const char *meaning;
} meanings[] = {
    { SIGSEGV, "invalid memory access" },
    { SIGBUS, "access to memory that is not there; a file was cut short, or "
              "/dev/shm is full?" },
    { SIGABRT, "it gave up by itself: abort or a failed assertion" },
    { SIGFPE, "impossible arithmetic, such as a division by zero" },
    { SIGILL, "an instruction that this processor does not have" },
    { SIGTRAP, "a trap for a debugger that was not there" },
    { SIGSYS, "a system call that is forbidden here" },
    { SIGKILL, "killed; out of memory?" },
    { SIGTERM, "somebody asked it to end" },
    { SIGINT, "interrupted" },
    { SIGQUIT, "somebody asked it to quit" },
    { SIGHUP, "its terminal or session has ended" },
    { SIGPIPE, "it wrote where nobody reads any more" },
    { SIGXCPU, "its limit of processor time is used up (ulimit -t)" },
    { SIGXFSZ, "a file has reached its limit (ulimit -f)" },
};

static const char *meaning_of(unsigned signo)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if ((unsigned)meanings[i].signo == signo) {
            return meanings[i].meaning;
        }
    }
    return NULL;
}

void cause_signal_name(unsigned signo, char *text, size_t size)
{
    const char *name = sigabbrev_np((int)signo);

    if (name != NULL) {
        snprintf(text, size, "SIG%s", name);
    } else if ((int)signo >= SIGRTMIN && (int)signo <= SIGRTMAX) {
        snprintf(text, size, "SIGRTMIN+%d", (int)signo - SIGRTMIN);
    } else {
        snprintf(text, size, "signal %u", signo);
    }
}

void cause_memory(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes / 1024.0;
    unsigned unit = 0;

    while (value >= 1000.0 && unit < 3) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, size, "%.1f %s", value, units[unit]);
}

/* The line that names the exception: the last one that is not indented. */
static bool find_exception(const char *tail, char *text, size_t size)
{
    static const char head[] = "Traceback (most recent call last):";
    const char *at = NULL;
    const char *found = NULL;
    const char *next = tail;
    size_t length;

    while ((next = strstr(next, head)) != NULL) {
        at = next;
        next += sizeof(head) - 1;
    }
    if (at == NULL) {
        return false;
    }
    while (*(at += strcspn(at, "\n")) != '\0' && *++at != '\0') {
        bool name = (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') ||
                    *at == '_';

        if (name) { /* further lines are of its message, or of others */
            found = at;
            break;
        }
    }
    if (found == NULL) {
        return false;
    }
    length = strcspn(found, "\n");
    snprintf(text, size, "Python exception %.*s",
             (int)(length < EXCEPTION_MAX ? length : EXCEPTION_MAX), found);
    return true;
}

static void code_text(const struct run_process *process, char *text,
                      size_t size)
{
    unsigned code = process->code;
    char name[32];

    text[0] = '\0';
    if (process->tail != NULL && find_exception(process->tail, text, size)) {
        return;
    }
    if (code == EXIT_CODE_NOT_FOUND) {
        snprintf(text, size, "command not found");
    } else if (code == EXIT_CODE_NOT_EXECUTABLE) {
        snprintf(text, size, "a command that cannot be executed");
    } else if (code > EXIT_CODE_SIGNAL &&
               sigabbrev_np((int)(code - EXIT_CODE_SIGNAL)) != NULL) {
        const char *meaning = meaning_of(code - EXIT_CODE_SIGNAL);

        cause_signal_name(code - EXIT_CODE_SIGNAL, name, sizeof(name));
        snprintf(text, size, "a process below it was killed by %s%s%s", name,
                 meaning == NULL ? "" : ": ", meaning == NULL ? "" : meaning);
    }
}

void cause_text(const struct run_process *process, char *text, size_t size)
{
    char had[48] = "";
    char amount[32];
    size_t used;

    if (process->memory == LAUNCH_MEMORY_KILLED) {
        if (process->memory_size > 0) {
            cause_memory(process->memory_size, amount, sizeof(amount));
            snprintf(had, sizeof(had), " (it had %s)", amount);
        }
        snprintf(text, size, "out of memory%s", had);
        return;
    }
    if (process->signal == 0) {
        code_text(process, text, size);
    } else {
        const char *meaning = meaning_of(process->signal);

        snprintf(text, size, "%s", meaning == NULL ? "" : meaning);
    }
    used = strlen(text);
    if (process->memory == LAUNCH_MEMORY_BELOW) {
        snprintf(text + used, size - used,
                 "%sthe kernel has killed a process of this job here: out of "
                 "memory",
                 used == 0 ? "" : "; ");
    }
}
