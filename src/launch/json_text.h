/*
 * json_text.h: one string of a JSON document. Any thread.
 */
#ifndef PSD_LAUNCH_JSON_TEXT_H
#define PSD_LAUNCH_JSON_TEXT_H

#include <stdio.h>

/* `text` in quotes; bytes that are no UTF-8 become U+FFFD. */
void json_text(FILE *file, const char *text);

#endif
