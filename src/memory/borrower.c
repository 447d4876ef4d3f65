/* borrower.c: a library as redirect_test.c needs it: it takes and gives back
 * memory through slots of its own, by call and by pointer. Linked with all
 * slots bound and sealed at load, and with slots that are bound when used. */
#include <stdlib.h>

#define BORROWER __attribute__((visibility("default")))

BORROWER void *borrower_take(size_t align, size_t size);
BORROWER void borrower_give(void *pointer);
BORROWER void borrower_give_by_pointer(void *pointer);
BORROWER void borrower_give_by_table(void *pointer);

static void (*volatile const table[])(void *) = {free};

void *borrower_take(size_t align, size_t size)
{
    void *pointer = NULL;

    return posix_memalign(&pointer, align, size) == 0 ? pointer : NULL;
}

void borrower_give(void *pointer)
{
    free(pointer);
}

/* The address of the function itself, out of the offset table. */
void borrower_give_by_pointer(void *pointer)
{
    void (*volatile give)(void *) = free;

    give(pointer);
}

void borrower_give_by_table(void *pointer)
{
    table[0](pointer);
}
