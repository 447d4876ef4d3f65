/*
 * phrase.h: numbers as a person reads them. Pure.
 */
#ifndef PSD_SCREEN_PHRASE_H
#define PSD_SCREEN_PHRASE_H

#include <stddef.h>
#include <stdint.h>

/* "1.5 GB", "120 MB" */
void phrase_bytes(double bytes, char *text, size_t size);
/* "350 us", "3.5 ms", "120 ms", "1.25 s" */
void phrase_time(uint64_t time_ns, char *text, size_t size);
/* "45 s", "12 min", "5 h 20 min", "3 d 4 h" */
void phrase_eta(double seconds, char *text, size_t size);
/* "8.5", "812", "1.20 M" */
void phrase_rate(double rate, char *text, size_t size);

#endif
