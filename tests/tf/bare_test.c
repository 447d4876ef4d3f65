/* bare_test.c: the plug-in where there is no TensorFlow: a sentence. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *address = library == NULL ? NULL : dlsym(library, "psd_tf_ready");
    const char *(*ready)(void);
    int good = 0;

    if (address != NULL) {
        memcpy(&ready, &address, sizeof(ready));
        good = ready() != NULL &&
               strstr(ready(), "import tensorflow first") != NULL;
    }
    printf("1..1\n%s 1 - without TensorFlow the plug-in says so\n",
           good ? "ok" : "not ok");
    return !good;
}
