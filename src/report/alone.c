/* alone.c: see alone.h. */
#include "report/alone.h"

#include <inttypes.h>

#include "base/banned.h"

#define ALONE_OFF "ISE" /* letters that switch it off */

/* What was found in the words so far. */
struct finding {
    bool python;  /* there is one */
    bool options; /* the words are options of it */
    bool skips;   /* the next word is the value of one */
    char flag;
};

/* python, python3, python3.11, pypy3; a path in front does not matter. */
static bool is_interpreter(const char *word, size_t size)
{
    for (size_t i = size; i > 0; i--) {
        if (word[i - 1] == '/') {
            word += i;
            size -= i;
            break;
        }
    }
    if (size >= 6 && memcmp(word, "python", 6) == 0) {
        return strspn(word + 6, "0123456789.") >= size - 6;
    }
    return size >= 4 && memcmp(word, "pypy", 4) == 0 &&
           strspn(word + 4, "0123456789.") >= size - 4;
}

static bool is_script(const char *word, size_t size)
{
    return size > 3 && memcmp(word + size - 3, ".py", 3) == 0;
}

/* An option, or several in one word; -c and -m end them. */
static void look_at_option(struct finding *finding, const char *word,
                           size_t size)
{
    for (size_t i = 1; i < size && word[1] != '-'; i++) {
        if (strchr(ALONE_OFF, word[i]) != NULL && finding->flag == 0) {
            finding->flag = word[i];
        } else if (word[i] == 'c' || word[i] == 'm') {
            finding->options = false;
            return;
        } else if (word[i] == 'W' || word[i] == 'X') {
            finding->skips = i + 1 == size;
            return;
        }
    }
}

static void look(struct finding *finding, const char *word, size_t size)
{
    if (is_interpreter(word, size)) {
        finding->python = true;
        finding->options = true;
        finding->skips = false;
    } else if (finding->skips) {
        finding->skips = false;
    } else if (finding->options && word[0] == '-' && size > 1) {
        look_at_option(finding, word, size);
    } else {
        finding->options = false;
        finding->python |= is_script(word, size);
    }
}

static void look_at_line(struct finding *finding, const char *line)
{
    static const char blanks[] = " \t\n;&|()\"'";

    while (*line != '\0') {
        size_t size = strcspn(line, blanks);

        if (size > 0) {
            look(finding, line, size);
        }
        line += size;
        line += *line != '\0';
    }
}

bool alone_is_python(char *const *command, uint32_t count, bool shell,
                     char *flag_p)
{
    struct finding finding = {.python = false};

    for (uint32_t i = 0; i < count; i++) {
        if (shell) {
            look_at_line(&finding, command[i]);
        } else {
            look(&finding, command[i], strlen(command[i]));
        }
    }
    *flag_p = finding.flag;
    return finding.python;
}

bool alone_text(const struct run *run, char *const *command, uint32_t count,
                bool shell, char *text, size_t size)
{
    char flag;

    for (uint32_t i = 0; i < run->workers; i++) {
        if (run->processes[i].entered) {
            return false;
        }
    }
    if (run->workers < 2 || !alone_is_python(command, count, shell, &flag)) {
        return false;
    }
    if (flag != 0) {
        snprintf(text, size,
                 "no worker joined the job: python -%c switches Poseidon off; "
                 "the program ran alone in each of %" PRIu32 " processes",
                 flag, run->workers);
    } else {
        snprintf(text, size,
                 "no worker joined the job: the program ran alone in each of "
                 "%" PRIu32 " processes; a worker joins with its first torch "
                 "optimizer, unless python -I, -S, -E or a PYTHONPATH of the "
                 "command's own switches Poseidon off",
                 run->workers);
    }
    return true;
}
