/*
 * probe_message.h: what psd check and its probes say to each other. All of it
 * is FRAME_PROBE; header.block is the kind. Encoders write into a pack;
 * decoders check everything and return PSD_EPROTO with a log line. Pure.
 */
#ifndef PSD_CHECK_PROBE_MESSAGE_H
#define PSD_CHECK_PROBE_MESSAGE_H

#include "launch/fact.h"
#include "launch/launch_message.h"
#include "transport/transport.h"

#define PROBE_PACKAGES_MAX 8
#define PROBE_VERSION_MAX  64
#define PROBE_REASON_MAX   512
#define PROBE_PINGS_MAX    1000
#define PROBE_PART_MS_MAX  10000u

enum probe_kind {
    /* over the stream of a probe */
    PROBE_BEGIN = 1, /* psd check: who you are; struct probe_begin */
    PROBE_FACTS,     /* probe: what is here; struct probe_facts */
    PROBE_CLOCK,     /* psd check: none; probe: u64 ns since 1970, same step */
    PROBE_MEASURE,   /* psd check: struct probe_measure */
    PROBE_MEASURED,  /* probe, once for each: struct probe_measured */
    /* between two probes; bulk bytes are FRAME_PUSH */
    PROBE_PING,   /* none */
    PROBE_PONG,   /* none, same step */
    PROBE_ENOUGH, /* none: the last of the bulk has gone before */
    PROBE_TOTAL,  /* struct probe_total: what has come of it */
};

struct probe_begin {
    struct auth_job job; /* proves probes to each other */
    uint32_t index;      /* of this host */
    uint32_t hosts;      /* in all; 1: loopback will do */
    char host[MESSAGE_URL_MAX]; /* this one, as the user calls it */
    char peer[MESSAGE_URL_MAX]; /* another one; "": none */
    char interface[LAUNCH_NAME_MAX];
    char ports[32];
    char folder[LAUNCH_PATH_MAX];     /* working directory of psd check */
    char logs[LAUNCH_PATH_MAX];       /* where logs would go, from there */
    char virtualenv[LAUNCH_PATH_MAX]; /* "": none */
};

struct probe_package {
    char name[32];
    char version[PROBE_VERSION_MAX];
};

/* Sentences are "" when all is well; numbers are 0 when unknown. */
struct probe_facts {
    uint32_t cores;
    uint64_t memory;
    uint64_t memory_free;
    char logs[LAUNCH_PATH_MAX]; /* absolute */
    uint64_t disk;              /* of the logs */
    uint64_t disk_free;
    uint8_t disk_writable;
    uint64_t files;     /* soft limit of open files */
    uint64_t files_max; /* hard */
    uint32_t gpus;      /* that a job would use */
    uint32_t gpu_count; /* of the next */
    char gpu_names[FACT_GPUS_MAX][FACT_GPU_MAX];
    uint8_t has_virtualenv;
    char python[LAUNCH_PATH_MAX]; /* "": none */
    char python_version[PROBE_VERSION_MAX];
    char python_reason[PROBE_REASON_MAX];
    uint32_t package_count;
    struct probe_package packages[PROBE_PACKAGES_MAX];
    char address[MESSAGE_URL_MAX]; /* for data links */
    char url[MESSAGE_URL_MAX];     /* where it listens; "": nowhere */
    char address_reason[PROBE_REASON_MAX];
};

struct probe_measure {
    uint32_t peer; /* index of that host */
    uint32_t pings;
    uint32_t bulk_ms;  /* how long to send; 0: not at all */
    uint32_t limit_ms; /* for all of it, beyond bulk_ms */
    char url[MESSAGE_URL_MAX];
};

struct probe_measured {
    uint32_t peer;
    int32_t status; /* psd_status; the others mean something when PSD_OK */
    uint64_t trip_ns; /* shortest round trip; 0: not measured */
    uint64_t size;    /* bytes received there */
    uint64_t time_ns; /* in so long */
    char reason[PROBE_REASON_MAX];
};

struct probe_total {
    uint64_t size;
    uint64_t time_ns;
};

void probe_begin_pack(struct pack *pack, const struct probe_begin *begin);
psd_status probe_begin_unpack(struct probe_begin *begin, const void *data,
                              size_t size);
void probe_facts_pack(struct pack *pack, const struct probe_facts *facts);
psd_status probe_facts_unpack(struct probe_facts *facts, const void *data,
                              size_t size);
void probe_measure_pack(struct pack *pack,
                        const struct probe_measure *measure);
psd_status probe_measure_unpack(struct probe_measure *measure,
                                const void *data, size_t size);
void probe_measured_pack(struct pack *pack,
                         const struct probe_measured *measured);
psd_status probe_measured_unpack(struct probe_measured *measured,
                                 const void *data, size_t size);
void probe_total_pack(struct pack *pack, const struct probe_total *total);
psd_status probe_total_unpack(struct probe_total *total, const void *data,
                              size_t size);
psd_status probe_clock_unpack(uint64_t *clock_p, const void *data,
                              size_t size);

/* Seal `pack` (NULL: no payload) as a frame of that kind and queue it. */
psd_status probe_send(struct psd_link *link, enum probe_kind kind,
                      uint64_t step, const struct pack *pack);

/* What the Python script prints, key=value lines; unknown and odd lines are
 * passed over, other characters than printable ASCII become "?". */
void probe_python_parse(struct probe_facts *facts, const char *text);

#endif
