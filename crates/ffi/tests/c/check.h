/* What the test programs share: a check that says where it failed, and waiting for a number to be reached. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "threadpool.h"

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: expected %s; last error %d: %s\n", __FILE__, __LINE__, #condition, \
                    (int)threadpool_last_error_code(), threadpool_last_error());                       \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

/* How often something is done: less under valgrind, which takes fifty times as long. */
static inline int often(int times) {
    return getenv("CHECK_LESS") != NULL ? times / 25 : times;
}

/* So long that only a hang takes longer. */
#define LONG_MS 60000u

#endif
