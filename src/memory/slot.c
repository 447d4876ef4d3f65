/*
 * slot.c: see slot.h. The tables are those of a file that the loader has
 * accepted, but they are read here by other rules than the loader's; so each
 * one has to lie inside a segment of its library before it is looked at.
 */
#define _GNU_SOURCE
#include "memory/slot.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

#if defined(__x86_64__)
#define RELOC_SLOT R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#define RELOC_WORD R_X86_64_64
#elif defined(__aarch64__)
#define RELOC_SLOT R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#define RELOC_WORD R_AARCH64_ABS64
#else
#define RELOC_SLOT 0
#define RELOC_DATA 0
#define RELOC_WORD 0
#endif

/* What is looked for, and the library in which it is. */
struct search {
    const char *library;
    const char *function;
    struct slot_list *list;
    char *why;
    size_t why_size;
    bool loaded;
    bool failed;
    const struct dl_phdr_info *info;
    const ElfW(Sym) * symbols;
    const char *names;
    size_t names_size;
};

struct table {
    const ElfW(Rela) * at;
    size_t size; /* bytes */
};

static void give_up(struct search *search, const char *what)
{
    snprintf(search->why, search->why_size, "%s: %s", search->library, what);
    search->failed = true;
}

/* Is [at, at + size) inside a segment of the library, writable if asked? */
static bool inside(const struct search *search, const void *at, size_t size,
                   bool writable)
{
    const struct dl_phdr_info *info = search->info;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        size_t offset = (uintptr_t)at - info->dlpi_addr - segment->p_vaddr;

        if (segment->p_type == PT_LOAD && offset <= segment->p_memsz &&
            size <= segment->p_memsz - offset &&
            (!writable || (segment->p_flags & PF_W) != 0)) {
            return true;
        }
    }
    return false;
}

/* glibc turns the addresses of the dynamic section into pointers, other
 * loaders leave them as they are in the file. */
static const void *pointer_of(const struct search *search, ElfW(Addr) value)
{
    const void *at = (const void *)value;

    return inside(search, at, 1, false)
               ? at
               : (const void *)(search->info->dlpi_addr + value);
}

/* The loader protects whole pages only: what is left of the last one stays
 * writable. */
static bool is_sealed(const struct search *search, const void *at)
{
    const struct dl_phdr_info *info = search->info;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + segment->p_vaddr;
        uintptr_t to = from + segment->p_memsz;

        if (segment->p_type == PT_GNU_RELRO &&
            (uintptr_t)at >= from / page * page &&
            (uintptr_t)at < to / page * page) {
            return true;
        }
    }
    return false;
}

static bool is_wanted(const struct search *search, const ElfW(Rela) * reloc)
{
    unsigned long type = ELF64_R_TYPE(reloc->r_info);
    const ElfW(Sym) *symbol = search->symbols + ELF64_R_SYM(reloc->r_info);
    size_t length = strlen(search->function) + 1;

    return (type == RELOC_SLOT || type == RELOC_DATA ||
            (type == RELOC_WORD && reloc->r_addend == 0)) &&
           inside(search, symbol, sizeof(*symbol), false) &&
           symbol->st_shndx == SHN_UNDEF &&
           symbol->st_name < search->names_size &&
           length <= search->names_size - symbol->st_name &&
           memcmp(search->names + symbol->st_name, search->function, length) ==
               0;
}

static void look_through(struct search *search, const struct table *table)
{
    for (size_t i = 0; i < table->size / sizeof(*table->at); i++) {
        const ElfW(Rela) *reloc = &table->at[i];
        struct slot_list *list = search->list;
        void **at;

        if (!is_wanted(search, reloc)) {
            continue;
        }
        at = (void **)(search->info->dlpi_addr + reloc->r_offset);
        if ((uintptr_t)at % sizeof(*at) != 0 ||
            !inside(search, at, sizeof(*at), true)) {
            give_up(search, "a relocation leads outside of the library");
            return;
        }
        if (list->count == SLOT_MAX) {
            give_up(search, "too many slots of one function");
            return;
        }
        list->slot[list->count++] = (struct slot){at, is_sealed(search, at)};
        /* Into the library itself leads the stub of a slot that is not bound
         * yet; it would write the slot again. */
        if (!inside(search, *at, 1, false)) {
            list->previous = *at;
        }
    }
}

static void read_dynamic(struct search *search, const ElfW(Dyn) * dynamic,
                         size_t count)
{
    struct table direct = {NULL, 0};
    struct table lazy = {NULL, 0};

    for (size_t i = 0; i < count && dynamic[i].d_tag != DT_NULL; i++) {
        ElfW(Addr) value = dynamic[i].d_un.d_ptr;

        switch (dynamic[i].d_tag) {
        case DT_SYMTAB:
            search->symbols = pointer_of(search, value);
            break;
        case DT_STRTAB:
            search->names = pointer_of(search, value);
            break;
        case DT_STRSZ:
            search->names_size = dynamic[i].d_un.d_val;
            break;
        case DT_RELA:
            direct.at = pointer_of(search, value);
            break;
        case DT_RELASZ:
            direct.size = dynamic[i].d_un.d_val;
            break;
        case DT_JMPREL:
            lazy.at = pointer_of(search, value);
            break;
        case DT_PLTRELSZ:
            lazy.size = dynamic[i].d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (!inside(search, search->symbols, sizeof(*search->symbols), false) ||
        !inside(search, search->names, search->names_size, false) ||
        (direct.at != NULL && !inside(search, direct.at, direct.size, false)) ||
        (lazy.at != NULL && !inside(search, lazy.at, lazy.size, false))) {
        give_up(search, "its tables of symbols are not where they should be");
        return;
    }
    if (direct.at != NULL) {
        look_through(search, &direct);
    }
    if (lazy.at != NULL && !search->failed) {
        look_through(search, &lazy);
    }
}

static bool is_named(const char *path, const char *library)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash == NULL ? path : slash + 1;
    size_t length = strlen(library);

    return strncmp(file, library, length) == 0 &&
           (file[length] == '\0' || file[length] == '.');
}

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
    struct search *search = user;

    (void)size;
    if (info->dlpi_name == NULL ||
        !is_named(info->dlpi_name, search->library)) {
        return 0;
    }
    search->loaded = true;
    search->info = info;
    search->symbols = NULL;
    search->names = NULL;
    search->names_size = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const void *at = (const void *)(info->dlpi_addr + segment->p_vaddr);

        if (segment->p_type == PT_DYNAMIC &&
            inside(search, at, segment->p_memsz, false)) {
            read_dynamic(search, at, segment->p_memsz / sizeof(ElfW(Dyn)));
        }
    }
    return search->failed; /* there may be a second copy of it */
}

psd_status slot_find(const char *library, const char *function,
                     struct slot_list *list, char *why, size_t why_size)
{
    struct search search = {.library = library,
                            .function = function,
                            .list = list,
                            .why = why,
                            .why_size = why_size};

    *list = (struct slot_list){.count = 0};
    if (RELOC_SLOT == 0) {
        give_up(&search, "not done on this kind of processor");
        return PSD_ENOSUP;
    }
    dl_iterate_phdr(look_at, &search);
    if (search.failed) {
        return PSD_ENOSUP;
    }
    if (!search.loaded) {
        give_up(&search, "no such library is loaded");
        return PSD_ENOSUP;
    }
    if (list->count > 0 && list->previous == NULL) {
        list->previous = dlsym(RTLD_DEFAULT, function);
    }
    if (list->previous == NULL) {
        snprintf(why, why_size, "%s: it does not call %s", library, function);
        return PSD_ENOSUP;
    }
    return PSD_OK;
}

static bool write_slot(const struct slot *slot, void *function)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)slot->at / page * page);

    if (slot->sealed && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) {
        log_warn("slot: a page cannot be made writable: %m");
        return false;
    }
    __atomic_store_n(slot->at, function, __ATOMIC_SEQ_CST);
    if (slot->sealed && mprotect(start, page, PROT_READ) != 0) {
        log_warn("slot: a page stays writable: %m");
    }
    return true;
}

psd_status slot_set(const struct slot_list *list, void *function)
{
    for (unsigned i = 0; i < list->count; i++) {
        if (!write_slot(&list->slot[i], function)) {
            while (i-- > 0) {
                write_slot(&list->slot[i], list->previous);
            }
            return PSD_ESYSTEM;
        }
    }
    return PSD_OK;
}
