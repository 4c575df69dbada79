/* Many threads on one pool, each fetching in its own way; every task is told of exactly once, and a shutdown in the
 * middle of it all leaves nobody behind. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

#define THREADS 4
/* Answered by whoever submits, and by a worker, because it has a time limit. */
#define QUICK "{\"handler\": \"echo\"}"
#define SLOW "{\"handler\": \"echo\", \"timeout_ms\": 60000}"

static threadpool_t* pool;
static int each;
static atomic_int by_wait, by_poll, by_callback, by_next, refused;

static void on_end(result_t* result, void* user_data) {
    (void)user_data;
    CHECK(result->status == 0);
    atomic_fetch_add(&by_callback, 1);
}

static uint64_t submit(const char* json) {
    uint64_t task;
    while ((task = threadpool_submit(pool, json)) == 0) {
        CHECK(threadpool_last_error_code() == ERR_QUEUE_FULL);
        sched_yield();
    }
    return task;
}

static void* waits(void* arg) {
    (void)arg;
    for (int i = 0; i < each; i++) {
        char json[120], expected[40];
        snprintf(json, sizeof json, "{\"handler\": \"echo\", \"args\": {\"i\": %d}%s}", i,
                 i % 3 == 0 ? ", \"timeout_ms\": 60000" : "");
        snprintf(expected, sizeof expected, "{\"i\": %d}", i);
        uint64_t task = submit(json);
        result_t* result = i % 2 == 0 ? threadpool_wait_result(pool, task, LONG_MS) : NULL;
        while (result == NULL) {
            sched_yield();
            result = threadpool_poll_result(pool, task);
        }
        CHECK(result->task_id == task && strcmp(result->data, expected) == 0);
        threadpool_result_free(result);
        atomic_fetch_add(i % 2 == 0 ? &by_wait : &by_poll, 1);
    }
    return NULL;
}

static void* calls_back(void* arg) {
    (void)arg;
    for (int i = 0; i < each; i++) {
        while (threadpool_submit_with_callback(pool, i % 2 == 0 ? QUICK : SLOW, on_end, NULL) == 0) {
            CHECK(threadpool_last_error_code() == ERR_QUEUE_FULL);
        }
    }
    return NULL;
}

/* Until the pool is shut down, which is when there is no next result. */
static void* takes_next(void* arg) {
    threadpool_t* other = arg;
    result_t* result;
    while ((result = threadpool_next_result(other, LONG_MS)) != NULL) {
        /* Four threads may well submit more than the store of results holds. */
        CHECK(result->status == 0 || result->status == ERR_RESULT_GONE);
        threadpool_result_free(result);
        atomic_fetch_add(&by_next, 1);
    }
    return NULL;
}

static void* submits_until_refused(void* arg) {
    threadpool_t* other = arg;
    while (threadpool_submit(other, SLOW) != 0 || threadpool_last_error_code() == ERR_QUEUE_FULL) {
    }
    atomic_fetch_add(&refused, 1);
    return NULL;
}

int main(void) {
    each = often(500);
    pthread_t waiting[THREADS], calling[THREADS], next[THREADS], submitting[THREADS];
    pool = threadpool_create(NULL);
    CHECK(pool != NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&waiting[i], NULL, waits, NULL) == 0);
        CHECK(pthread_create(&calling[i], NULL, calls_back, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(waiting[i], NULL);
        pthread_join(calling[i], NULL);
    }
    threadpool_t* other = threadpool_create(NULL);
    CHECK(other != NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&next[i], NULL, takes_next, other) == 0);
        CHECK(pthread_create(&submitting[i], NULL, submits_until_refused, other) == 0);
    }
    while (atomic_load(&by_next) < each) sched_yield();
    threadpool_shutdown(other);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(next[i], NULL);
        pthread_join(submitting[i], NULL);
    }
    CHECK(atomic_load(&refused) == THREADS);
    threadpool_shutdown(pool);
    CHECK(atomic_load(&by_wait) == THREADS * each / 2 && atomic_load(&by_poll) == THREADS * each / 2);
    CHECK(atomic_load(&by_callback) == THREADS * each);
    puts("ok");
    return 0;
}
