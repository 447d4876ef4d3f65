/* ssh.c: see ssh.h. ssh joins its words with blanks and hands them to the
 * login shell there, so every word is quoted; another way than ssh gets them
 * as they are. No option weakens ssh: keys, host keys and addresses stay what
 * the user's own configuration says. */
#define _GNU_SOURCE
#include "launch/ssh.h"

#include <inttypes.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/mem.h"

#define COMMAND_MAX 8192

/* $1 is psd as it is called here; the others are its arguments. */
static const char find_script[] =
    "p=$1; shift; for q in \"$p\" \"$(command -v psd 2>/dev/null)\"; do "
    "if [ -n \"$q\" ] && [ -x \"$q\" ]; then exec \"$q\" \"$@\"; fi; done; "
    "echo \"psd not found\" >&2; exit 127";

/* $1 is psd as it is called here, $2 what it says of its version, $3 names the
 * copy, $4 is its size. An installed one of the same version is used, then a
 * copy that is there; a new one is unpacked beside its place and moved there
 * in one step. */
static const char copy_script[] =
    "p=$1; v=$2; d=${XDG_CACHE_HOME:-$HOME/.cache}/poseidon/copy-$3; n=$4; "
    "shift 4; for q in \"$p\" \"$(command -v psd 2>/dev/null)\" "
    "\"$d/bin/psd\"; do "
    "if [ -n \"$q\" ] && [ -x \"$q\" ] && "
    "[ \"$(\"$q\" --version 2>/dev/null)\" = \"$v\" ]; then "
    "exec \"$q\" \"$@\"; fi; done; "
    "t=$d.$$; mkdir -p \"$t\" || exit 73; echo \"poseidon wants\"; "
    "head -c \"$n\" | tar -xf - -C \"$t\" || { rm -rf \"$t\"; "
    "echo \"psd could not be copied\" >&2; exit 73; }; "
    "rm -rf \"$d\"; mv -T \"$t\" \"$d\" 2>/dev/null || rm -rf \"$t\"; "
    "exec \"$d/bin/psd\" \"$@\"";

/* ---- words -------------------------------------------------------------- */

static psd_status add_word(struct launch_words *words, const char *word)
{
    void *array = words->words;
    char *copy = mem_strdup(word);

    if (copy == NULL || mem_grow(&array, words->count, (size_t)words->count + 2,
                                 sizeof(*words->words)) != PSD_OK) {
        mem_free(copy);
        return PSD_ENOMEM;
    }
    words->words = array;
    words->words[words->count++] = copy;
    return PSD_OK;
}

/* Append `word` as one word of a shell; false when there is no room. */
static bool quote(char *text, size_t size, const char *word)
{
    size_t used = strlen(text);

    if (used > 0 && used + 1 < size) {
        text[used++] = ' ';
    }
    if (used + 3 > size) {
        return false;
    }
    text[used++] = '\'';
    for (; *word != '\0'; word++) {
        if (used + 7 > size) {
            return false;
        }
        if (*word == '\'') {
            memcpy(text + used, "'\\''", 4);
            used += 4;
        } else {
            text[used++] = *word;
        }
    }
    text[used++] = '\'';
    text[used] = '\0';
    return true;
}

/* What the shell over there is given, in one string. */
static psd_status compose(const struct ssh_way *way,
                          const char *const *arguments, char *text, size_t size)
{
    char version[64];
    char number[32];
    bool fits;

    snprintf(text, size, "exec sh -c");
    snprintf(version, sizeof(version), "psd %s", psd_version());
    snprintf(number, sizeof(number), "%zu", way->copy_size);
    if (way->copy_id != NULL) {
        fits = quote(text, size, copy_script) && quote(text, size, "psd") &&
               quote(text, size, way->psd) && quote(text, size, version) &&
               quote(text, size, way->copy_id) && quote(text, size, number);
    } else {
        fits = quote(text, size, find_script) && quote(text, size, "psd") &&
               quote(text, size, way->psd);
    }
    for (; fits && *arguments != NULL; arguments++) {
        fits = quote(text, size, *arguments);
    }
    if (!fits) {
        log_error("run: the path of psd is too long for ssh");
        return PSD_EINVAL;
    }
    return PSD_OK;
}

static psd_status add_all(struct launch_words *argv, const char *const *words)
{
    psd_status status = PSD_OK;

    for (; *words != NULL && status == PSD_OK; words++) {
        status = add_word(argv, *words);
    }
    return status;
}

/* ssh expands %d and the like in the name of a key. */
static bool escape_percent(char *text, size_t size, const char *path)
{
    size_t used = 0;

    for (; *path != '\0'; path++) {
        if (used + 3 > size) {
            return false;
        }
        text[used++] = *path;
        if (*path == '%') {
            text[used++] = '%';
        }
    }
    text[used] = '\0';
    return true;
}

static psd_status add_ssh(const struct ssh_way *way,
                          const struct cluster_host *host,
                          const char *const *arguments,
                          struct launch_words *argv)
{
    char command[COMMAND_MAX];
    char timeout[48];
    char port[16];
    char key[LAUNCH_PATH_MAX];
    const char *words[24] = {"ssh",           "-T", "-a",   "-x", "-o",
                             "BatchMode=yes", "-o", timeout};
    size_t count = 8;
    psd_status status = compose(way, arguments, command, sizeof(command));

    if (status != PSD_OK) {
        return status;
    }
    snprintf(timeout, sizeof(timeout), "ConnectTimeout=%d", SSH_CONNECT_S);
    if (way->pem_file != NULL) {
        if (!escape_percent(key, sizeof(key), way->pem_file)) {
            log_error("run: the path of pem_file is too long");
            return PSD_EINVAL;
        }
        words[count++] = "-i";
        words[count++] = key;
    }
    if (host->port != 0) {
        snprintf(port, sizeof(port), "%u", host->port);
        words[count++] = "-p";
        words[count++] = port;
    }
    if (host->user != NULL) {
        words[count++] = "-l";
        words[count++] = host->user;
    }
    words[count++] = "--";
    words[count++] = host->name;
    words[count++] = command;
    return add_all(argv, words);
}

/* CMD is cut at blanks: it is a program and its arguments, no shell. */
static psd_status add_rsh(const struct ssh_way *way,
                          const struct cluster_host *host,
                          const char *const *arguments,
                          struct launch_words *argv)
{
    char word[LAUNCH_PATH_MAX];
    const char *at = way->rsh;
    const char *words[] = {host->name, way->psd, NULL};
    psd_status status = PSD_OK;

    while (status == PSD_OK) {
        size_t size;

        at += strspn(at, " \t");
        size = strcspn(at, " \t");
        if (size == 0) {
            break;
        }
        if (size >= sizeof(word)) {
            log_error("run: a word of --rsh is too long");
            return PSD_EINVAL;
        }
        memcpy(word, at, size);
        word[size] = '\0';
        status = add_word(argv, word);
        at += size;
    }
    if (status == PSD_OK && argv->count == 0) {
        log_error("run: --rsh is empty; name a command, as in --rsh \"ssh\"");
        return PSD_EINVAL;
    }
    if (status == PSD_OK) {
        status = add_all(argv, words);
    }
    return status == PSD_OK ? add_all(argv, arguments) : status;
}

psd_status ssh_words(const struct ssh_way *way, const struct cluster_host *host,
                     const char *const *arguments, struct launch_words *argv_p)
{
    struct launch_words argv = {.count = 0};
    psd_status status;

    if (host->local) {
        status = add_word(&argv, way->psd);
        if (status == PSD_OK) {
            status = add_all(&argv, arguments);
        }
    } else if (way->rsh != NULL) {
        status = add_rsh(way, host, arguments, &argv);
    } else {
        status = add_ssh(way, host, arguments, &argv);
    }
    if (status != PSD_OK) {
        launch_words_fini(&argv);
        return status;
    }
    *argv_p = argv;
    return PSD_OK;
}

/* ---- what went wrong ---------------------------------------------------- */

/* The first row whose words stand in what ssh said. %h: the host. */
static const struct {
    const char *words;
    const char *cause;
    bool again;
} causes[] = {
    {"REMOTE HOST IDENTIFICATION HAS CHANGED",
     "its host key is not the one that is known: it was installed anew, or "
     "somebody is in between; if you know why, run `ssh-keygen -R %h`, then "
     "`ssh %h true`",
     false},
    {"Host key verification failed",
     "its host key is not known yet; run `ssh %h true` once, compare the key "
     "and accept it",
     false},
    {"UNPROTECTED PRIVATE KEY FILE",
     "ssh does not use a key that others may read; run `chmod 600` on it",
     false},
    {"bad permissions",
     "ssh does not use a key that others may read; run `chmod 600` on it",
     false},
    {"Permission denied",
     "it accepts none of your keys; run `ssh-copy-id %h`, or check username "
     "and pem_file; `ssh %h true` must work without a password",
     false},
    {"Too many authentication failures",
     "it accepts none of your keys; name the right one in ~/.ssh/config "
     "(IdentityFile, IdentitiesOnly), or as pem_file",
     false},
    {"Could not resolve hostname",
     "its name is not known here; check the spelling, /etc/hosts and "
     "~/.ssh/config",
     false},
    {"Connection refused",
     "no sshd listens there; run `systemctl start ssh` on it, or give its "
     "port as host:port",
     false},
    {"No route to host",
     "there is no route to it; is it switched on, and does `ping %h` reach "
     "it?",
     false},
    {"Network is unreachable",
     "there is no route to its network; see `ip route`", false},
    {"timed out",
     "it does not answer; is it switched on, and does a firewall let ssh "
     "through? See `ssh -v %h true`",
     false},
    {"Connection reset", "sshd hung up (MaxStartups in sshd_config?)", true},
    {"Connection closed", "sshd hung up (MaxStartups in sshd_config?)", true},
    {"kex_exchange_identification",
     "sshd hung up (MaxStartups in sshd_config?)", true},
    {"psd not found",
     "psd is not installed there; install Poseidon at the same path as here, "
     "put psd into the PATH of a login without terminal, or let psd_run "
     "bring it with --copy",
     false},
    {"error while loading shared libraries",
     "a library that psd needs is not installed there; `ssh %h ldd "
     "$(command -v psd)` shows which (libssl3 of Debian has libcrypto)",
     false},
    {"No space left on device", "its disk is full; see `ssh %h df -h`", false},
};

/* Copy `cause`, with the host for each %h. */
static void fill(char *text, size_t size, const char *cause, const char *host)
{
    size_t used = strlen(text);

    for (; *cause != '\0' && used + 1 < size; cause++) {
        if (cause[0] == '%' && cause[1] == 'h') {
            int n = snprintf(text + used, size - used, "%s", host);

            used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
            cause++;
        } else {
            text[used++] = *cause;
        }
    }
    text[used] = '\0';
}

void ssh_target(const struct cluster_host *host, char *text, size_t size)
{
    char port[24] = "";

    if (host->port != 0) {
        snprintf(port, sizeof(port), "-p %u ", host->port);
    }
    snprintf(text, size, "%s%s%s%s", port, host->user == NULL ? "" : host->user,
             host->user == NULL ? "" : "@", host->name);
}

static void last_line(const char *said, char *line, size_t size)
{
    const char *end = said + strlen(said);
    const char *at;

    while (end > said && end[-1] == '\n') {
        end--;
    }
    at = end;
    while (at > said && at[-1] != '\n') {
        at--;
    }
    snprintf(line, size, "%.*s", (int)(end - at), at);
}

bool ssh_explain(const struct ssh_way *way, const struct cluster_host *host,
                 int status, const char *said, char *sentence, size_t size)
{
    char name[512];
    char line[512];
    const char *how = host->local ? "psd" : way->rsh != NULL ? way->rsh : "ssh";

    ssh_target(host, name, sizeof(name));
    snprintf(sentence, size, "host %s: ", host->name);
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        if (strstr(said, causes[i].words) != NULL) {
            fill(sentence, size, causes[i].cause, name);
            return causes[i].again;
        }
    }
    last_line(said, line, sizeof(line));
    if (WIFSIGNALED(status)) {
        snprintf(sentence, size, "host %s: %s was killed by signal %d",
                 host->name, how, WTERMSIG(status));
    } else if (line[0] != '\0') {
        snprintf(sentence, size, "host %s: %s ended with exit code %d: %s",
                 host->name, how, WEXITSTATUS(status), line);
    } else {
        snprintf(sentence, size,
                 "host %s: %s ended with exit code %d and said nothing; try "
                 "`ssh %s true`",
                 host->name, how, WEXITSTATUS(status), name);
    }
    return false;
}
