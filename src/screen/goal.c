/* goal.c: see goal.h. */
#include "screen/goal.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/banned.h"

#define GOAL_DIGITS 15

static const char *const names[] = {"steps", "max_steps", "num_steps",
                                    "train_steps"};

/* A word, not terminated. */
struct word {
    const char *text;
    size_t size;
};

static bool number(struct word word, uint64_t *value_p)
{
    uint64_t value = 0;

    if (word.size == 0 || word.size > GOAL_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < word.size; i++) {
        if (word.text[i] < '0' || word.text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(word.text[i] - '0');
    }
    *value_p = value;
    return true;
}

/* Is it --NAME, or --NAME=...? Dash and underscore are the same. Then `rest_p`
 * is what follows the name. */
static bool is_flag(struct word word, const char *name, struct word *rest_p)
{
    size_t size = strlen(name);

    if (word.size < size + 2 || word.text[0] != '-' || word.text[1] != '-') {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char c = word.text[i + 2] == '-' ? '_' : word.text[i + 2];

        if (c != name[i]) {
            return false;
        }
    }
    *rest_p = (struct word){word.text + size + 2, word.size - size - 2};
    return rest_p->size == 0 || rest_p->text[0] == '=';
}

/* What was found in the words so far. */
struct finding {
    bool expects; /* the word before was a flag without a value */
    uint64_t steps;
};

static void look(struct finding *finding, struct word word)
{
    uint64_t value;

    if (finding->expects && number(word, &value)) {
        finding->steps = value;
    }
    finding->expects = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct word rest;

        if (!is_flag(word, names[i], &rest)) {
            continue;
        }
        finding->expects = rest.size == 0;
        if (rest.size > 0 &&
            number((struct word){rest.text + 1, rest.size - 1}, &value)) {
            finding->steps = value;
        }
    }
}

static void look_at_line(struct finding *finding, const char *line)
{
    static const char blanks[] = " \t\n;&|";

    while (*line != '\0') {
        struct word word = {line, strcspn(line, blanks)};

        line += word.size;
        line += *line != '\0';
        if (word.size >= 2 && (word.text[0] == '"' || word.text[0] == '\'') &&
            word.text[word.size - 1] == word.text[0]) {
            word = (struct word){word.text + 1, word.size - 2};
        }
        if (word.size > 0) {
            look(finding, word);
        }
    }
}

uint64_t goal_steps(char *const *command, uint32_t count, int shell)
{
    struct finding finding = {.expects = false};

    for (uint32_t i = 0; i < count; i++) {
        if (shell) {
            look_at_line(&finding, command[i]);
        } else {
            look(&finding, (struct word){command[i], strlen(command[i])});
        }
    }
    return finding.steps;
}
