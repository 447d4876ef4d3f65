/*
 * goal.h: how many steps a training will have, as its command line says: the
 * last of --steps, --max_steps, --num_steps, --train_steps (also with dashes)
 * with a number behind it, as a word of its own or after an equals sign. Pure.
 */
#ifndef PSD_SCREEN_GOAL_H
#define PSD_SCREEN_GOAL_H

#include <stdint.h>

/* `shell`: the command is one word, a line for sh; it is cut at blanks, and
 * quotes around a word do not count. 0: unknown. */
uint64_t goal_steps(char *const *command, uint32_t count, int shell);

#endif
