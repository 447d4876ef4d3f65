/* ssh_test.c: the words that start psd on a host, run by a real shell, and
 * what is said when that fails. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/ssh.h"

static const char *const agent[] = { "agent", NULL };

static bool has(const struct launch_words *words, const char *word)
{
    for (uint32_t i = 0; i < words->count; i++) {
        if (strcmp(words->words[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static void this_machine_needs_no_ssh(void **state)
{
    struct cluster_host host = { .name = "localhost", .local = true };
    struct ssh_way way = { .psd = "/opt/x/bin/psd", .rsh = "rsh" };
    struct launch_words words;

    (void)state;
    assert_int_equal(ssh_words(&way, &host, agent, &words), PSD_OK);
    assert_int_equal(words.count, 2);
    assert_string_equal(words.words[0], "/opt/x/bin/psd");
    assert_string_equal(words.words[1], "agent");
    launch_words_fini(&words);
}

static void ssh_gets_user_port_and_key_and_nothing_weaker(void **state)
{
    struct cluster_host host = { .name = "fd77::1",
                                 .user = "u",
                                 .port = 2222 };
    struct ssh_way way = { .psd = "/p/psd", .pem_file = "/k/a%d key.pem" };
    struct launch_words words;

    (void)state;
    assert_int_equal(ssh_words(&way, &host, agent, &words), PSD_OK);
    assert_string_equal(words.words[0], "ssh");
    assert_true(has(&words, "BatchMode=yes"));
    assert_true(has(&words, "2222"));
    assert_true(has(&words, "u"));
    assert_true(has(&words, "/k/a%%d key.pem"));
    assert_string_equal(words.words[words.count - 3], "--");
    assert_string_equal(words.words[words.count - 2], "fd77::1");
    for (uint32_t i = 0; i < words.count; i++) {
        assert_null(strstr(words.words[i], "StrictHostKeyChecking"));
        assert_null(strstr(words.words[i], "UserKnownHostsFile"));
        assert_null(strstr(words.words[i], "PasswordAuthentication"));
    }
    launch_words_fini(&words);
}

static void another_way_gets_its_words_as_they_are(void **state)
{
    struct cluster_host host = { .name = "node3" };
    struct ssh_way way = { .psd = "/p q/psd", .rsh = " ip netns  exec " };
    struct launch_words words;

    (void)state;
    assert_int_equal(ssh_words(&way, &host, agent, &words), PSD_OK);
    assert_int_equal(words.count, 6);
    assert_string_equal(words.words[0], "ip");
    assert_string_equal(words.words[2], "exec");
    assert_string_equal(words.words[3], "node3");
    assert_string_equal(words.words[4], "/p q/psd");
    launch_words_fini(&words);
    way.rsh = "  ";
    assert_int_equal(ssh_words(&way, &host, agent, &words), PSD_EINVAL);
}

/* What the login shell over there would make of the command: `printer` is
 * found as psd and prints its own name and arguments. */
static void run_shell(const char *command, char *out, size_t size)
{
    FILE *file;
    int ends[2];
    pid_t pid;
    size_t used;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    file = fdopen(ends[0], "r");
    used = fread(out, 1, size - 1, file);
    out[used] = '\0';
    fclose(file);
    waitpid(pid, NULL, 0);
}

static void no_path_is_read_by_a_shell(void **state)
{
    static const char *const hostile[] = {
        "plain",      "a b",      "a'b",       "a\"b",   "$(touch x)",
        "`touch x`",  "a;b",      "a\nb",      "-dash",  "a&b|c>d",
        "\\",         "'; exit '", "${HOME}",  "*",      "~",
    };
    char folder[] = "/tmp/psd-ssh-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        const char *arguments[] = { hostile[i], NULL };
        struct cluster_host host = { .name = "h" };
        char path[256];
        char want[512];
        char out[512];
        struct ssh_way way = { .psd = path };
        struct launch_words words;
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, hostile[i]);
        file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "#!/bin/sh\nprintf '%%s|' \"$0\" \"$@\"\n");
        fclose(file);
        assert_int_equal(chmod(path, 0700), 0);
        assert_int_equal(ssh_words(&way, &host, arguments, &words), PSD_OK);
        run_shell(words.words[words.count - 1], out, sizeof(out));
        snprintf(want, sizeof(want), "%s|%s|", path, hostile[i]);
        assert_string_equal(out, want);
        launch_words_fini(&words);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0); /* nothing was touched in it */
}

static void a_path_that_does_not_fit_is_refused(void **state)
{
    struct cluster_host host = { .name = "h" };
    struct launch_words words;
    static char path[20000];
    struct ssh_way way = { .psd = path };

    (void)state;
    memset(path, '\'', sizeof(path) - 1);
    assert_int_equal(ssh_words(&way, &host, agent, &words), PSD_EINVAL);
}

static void faults_have_cause_and_cure(void **state)
{
    static const struct {
        const char *said;
        const char *part;
        bool again;
    } rows[] = {
        { "u@h: Permission denied (publickey).", "ssh-copy-id -p 7 u@h",
          false },
        { "Host key verification failed.", "`ssh -p 7 u@h true`", false },
        { "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key "
          "verification failed.",
          "ssh-keygen -R", false },
        { "ssh: Could not resolve hostname h: Name or service not known",
          "spelling", false },
        { "ssh: connect to host h port 22: Connection refused", "sshd",
          false },
        { "ssh: connect to host h port 22: No route to host", "route", false },
        { "ssh: connect to host h port 22: Connection timed out", "firewall",
          false },
        { "kex_exchange_identification: Connection closed by remote host",
          "MaxStartups", true },
        { "psd not found", "--copy", false },
        { "strange", "exit code 255: strange", false },
        { "", "said nothing", false },
    };
    struct cluster_host host = { .name = "h", .user = "u", .port = 7 };
    struct ssh_way way = { .psd = "psd" };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sentence[1024];

        assert_int_equal(ssh_explain(&way, &host, 255 << 8, rows[i].said,
                                     sentence, sizeof(sentence)),
                         rows[i].again);
        assert_non_null(strstr(sentence, rows[i].part));
        assert_ptr_equal(strstr(sentence, "host h: "), sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_machine_needs_no_ssh),
        cmocka_unit_test(ssh_gets_user_port_and_key_and_nothing_weaker),
        cmocka_unit_test(another_way_gets_its_words_as_they_are),
        cmocka_unit_test(no_path_is_read_by_a_shell),
        cmocka_unit_test(a_path_that_does_not_fit_is_refused),
        cmocka_unit_test(faults_have_cause_and_cure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
