/* replay.c: run a fuzz target over the files of the folders given, each whole
 * and cut short, so that the corpus is a test without libFuzzer. */
#define _GNU_SOURCE
#include <dirent.h>

#include "base/log.h"
#include "base/mem.h"
#include "fuzz.h"

#define FILE_MAX (1u << 20)
#define CUTS 16

static void replay_file(const char *path)
{
    uint8_t *bytes = mem_zalloc(FILE_MAX);
    FILE *file = fopen(path, "rbe");
    size_t size;

    PSD_ASSERT(bytes != NULL);
    PSD_ASSERT(file != NULL);
    size = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    for (size_t i = 0; i <= CUTS; i++) {
        /* Memory of its own, so that reading beyond the end is noticed. */
        size_t part = size * i / CUTS;
        uint8_t *copy = mem_zalloc(part);

        PSD_ASSERT(copy != NULL);
        memcpy(copy, bytes, part);
        (void)LLVMFuzzerTestOneInput(copy, part);
        mem_free(copy);
    }
    mem_free(bytes);
}

static unsigned replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;

    PSD_ASSERT(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        char path[4096];

        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        replay_file(path);
        count++;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    unsigned count = 0;

    for (int i = 1; i < argc; i++) {
        count += replay_folder(argv[i]);
    }
    printf("%u files\n", count);
    return count == 0;
}
