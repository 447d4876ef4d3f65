/*
 * banned.h: calls that this code base does not make, turned into errors.
 * Included by every .c file through log.h or mem.h; mem.c alone undoes it.
 */
#ifndef PSD_BASE_BANNED_H
#define PSD_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PSD_BANNED_ALLOWED
#undef strcpy
#undef strcat
#undef strncpy
#undef sprintf
#undef vsprintf
#undef strtok
#pragma GCC poison strcpy strcat strncpy sprintf vsprintf strtok atoi atol
#pragma GCC poison malloc calloc realloc
#endif

#endif
