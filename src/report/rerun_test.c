/* rerun_test.c: what is printed, a shell reads as it was. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "report/rerun.h"

static void plain_words_stay_plain(void **state)
{
    char *words[] = { "psd_run", "-n", "4", "--name=a", "python train.py" };
    char *line = rerun_line(5, words);

    (void)state;
    assert_string_equal(line, "psd_run -n 4 --name=a 'python train.py'");
    mem_free(line);
    line = rerun_line(0, words);
    assert_string_equal(line, "");
    mem_free(line);
}

/* Let sh read the line and print each word with an end that no word has. */
static void hostile_words_come_back_unchanged(void **state)
{
    char *words[] = { "printf", "%s\001", "a b", "", "it's", "$(echo no)",
                      "`no`", "\\", "\"", "*", "~", "a\nb", "-x", "#", "!",
                      "\xff\xfe", "'", "''" };
    int count = (int)(sizeof(words) / sizeof(words[0]));
    char *line = rerun_line(count, words);
    char *argv[] = { "sh", "-c", line, NULL };
    char got[4096];
    size_t used = 0;
    ssize_t n;
    int ends[2];
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execv("/bin/sh", argv);
        _exit(1);
    }
    close(ends[1]);
    while ((n = read(ends[0], got + used, sizeof(got) - used)) > 0) {
        used += (size_t)n;
    }
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 2, at = 0; i < count; i++) {
        size_t size = strlen(words[i]);

        assert_true((size_t)at + size < used);
        assert_memory_equal(got + at, words[i], size);
        assert_int_equal(got[at + (int)size], '\001');
        at += (int)size + 1;
    }
    mem_free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_words_stay_plain),
        cmocka_unit_test(hostile_words_come_back_unchanged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
