/*
 * fact.h: what a host has: folders, memory, disk, GPUs, free ports. Looked up
 * by an agent before a job starts (prepare.c) and by a probe of psd check. The
 * parsers are pure. Any thread.
 */
#ifndef PSD_LAUNCH_FACT_H
#define PSD_LAUNCH_FACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACT_GPUS_MAX   64
#define FACT_GPU_MAX    64                   /* bytes of a model's name */
#define FACT_DISK_LEAST (UINT64_C(16) << 20) /* a job needs for its logs */

bool fact_is_folder(const char *path);

/* "~/x" -> "$HOME/x". */
void fact_expand_home(char *path, size_t size);

/* The GPUs of this host: those that CUDA_VISIBLE_DEVICES names, or all that
 * the driver shows. Fills `ids` with pointers into `text`. */
unsigned fact_gpus(char *text, size_t size, const char *ids[FACT_GPUS_MAX]);
/* The models, in the order of `folder` (/proc/driver/nvidia/gpus). */
unsigned fact_gpu_names(const char *folder,
                        char names[FACT_GPUS_MAX][FACT_GPU_MAX]);

/* Open files that an agent needs for so many. */
uint64_t fact_files_needed(uint32_t workers, uint32_t servers);

bool fact_port_is_free(const char *address, unsigned port);

/* Bytes of memory, and what is free of it: of the machine, or of the control
 * group that limits this process to less. 0: unknown. */
void fact_memory(uint64_t *total_p, uint64_t *free_p);
/* "Name:   1234 kB" of /proc/meminfo, in bytes; 0: not there. */
uint64_t fact_meminfo(const char *text, const char *name);

struct fact_disk {
    uint64_t total;
    uint64_t free; /* for this user */
    bool writable;
};

/* The disk of `path`, or of the nearest folder above it that is there. */
bool fact_disk(const char *path, struct fact_disk *disk);

#endif
