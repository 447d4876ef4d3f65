/*
 * utf8.h: text for files that must be UTF-8, made from bytes that may be
 * anything. Pure.
 */
#ifndef PSD_REPORT_UTF8_H
#define PSD_REPORT_UTF8_H

#include <stddef.h>

/* A copy of `size` bytes in which every byte that belongs to no valid
 * sequence (overlong, a surrogate, beyond U+10FFFF, cut) is U+FFFD and every
 * NUL is '?'. mem_free frees it. NULL: no memory. */
char *utf8_clean(const char *bytes, size_t size);

#endif
