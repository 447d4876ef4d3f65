/* region.c: see region.h. Pages come into being when they are touched: a
 * region as large as the machine's memory costs nothing. */
#define _GNU_SOURCE
#include "launch/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/shm.h"

#define REGION_CELLS_SIZE (UINT64_C(8) << 30) /* of the board */
#define REGION_ALIGN      (UINT64_C(2) << 20)

static uint64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    uint64_t size = UINT64_C(1) << 30;

    if (pages > 0 && page > 0) {
        size = (uint64_t)pages * (uint64_t)page;
    }
    return (size + REGION_ALIGN - 1) / REGION_ALIGN * REGION_ALIGN;
}

static psd_status make(const char *name, uint64_t size, int *fd_p)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) {
        log_error("region: no memfd for %s: %m; is `ulimit -n` too low?", name);
        return PSD_ESYSTEM;
    }
    if (ftruncate(fd, (off_t)size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
            0) {
        log_error("region: cannot size %s: %m; is `ulimit -f` set?", name);
        close(fd);
        return PSD_ESYSTEM;
    }
    *fd_p = fd;
    return PSD_OK;
}

static psd_status format_board(int fd, size_t front, uint32_t workers,
                               uint32_t shards)
{
    void *base = mmap(NULL, front, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED) {
        log_error("region: cannot map the board: %m");
        return PSD_ESYSTEM;
    }
    shm_board_format(base, workers, shards);
    munmap(base, front);
    return PSD_OK;
}

psd_status region_set_init(struct region_set *set, uint32_t workers,
                           uint32_t shards, uint32_t local_workers)
{
    size_t front = shm_board_front(workers, shards);
    psd_status status;

    *set = (struct region_set){ .board_size = front + REGION_CELLS_SIZE,
                                .arena_size = machine_memory() };
    set->fds = mem_zalloc_array((size_t)local_workers + 1, sizeof(int));
    if (set->fds == NULL) {
        return PSD_ENOMEM;
    }
    status = make("psd-board", set->board_size, &set->fds[0]);
    if (status != PSD_OK) {
        goto undo;
    }
    set->count = 1;
    status = format_board(set->fds[0], front, workers, shards);
    for (uint32_t i = 0; i < local_workers && status == PSD_OK; i++) {
        status = make("psd-arena", set->arena_size, &set->fds[i + 1]);
        set->count += status == PSD_OK;
    }
    if (status == PSD_OK) {
        return PSD_OK;
    }

undo:
    region_set_fini(set);
    return status;
}

void region_set_fini(struct region_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        close(set->fds[i]);
    }
    mem_free(set->fds);
    *set = (struct region_set){ .count = 0 };
}
