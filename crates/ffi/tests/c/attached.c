/* A pool in a daemon: results by number and in whichever order they come, streams, callbacks, cancelling, and leaving. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

static atomic_int called;

static void on_end(result_t* result, void* user_data) {
    CHECK(result->status == 0 && strcmp(result->data, user_data) == 0);
    atomic_fetch_add(&called, 1);
}

int main(void) {
    threadpool_t* pool = threadpool_attach("myapp");
    CHECK(pool != NULL);
    CHECK(threadpool_symbols(pool) == NULL);
    for (int i = 0; i < 1000; i++) {
        uint64_t task = threadpool_submit(pool, "{\"handler\": \"echo\", \"args\": {\"n\": 1}}");
        CHECK(task != 0);
        result_t* result = i % 2 == 0 ? threadpool_wait_result(pool, task, LONG_MS) : NULL;
        while (result == NULL) result = threadpool_poll_result(pool, task);
        CHECK(result->task_id == task && result->status == 0 && strcmp(result->data, "{\"n\": 1}") == 0);
        threadpool_result_free(result);
        CHECK(threadpool_poll_result(pool, task) == NULL && threadpool_last_error_code() == ERR_NOT_FOUND);
    }
    for (int i = 0; i < 100; i++) CHECK(threadpool_submit(pool, "{\"handler\": \"echo\"}") != 0);
    for (int i = 0; i < 100; i++) {
        result_t* result = threadpool_next_result(pool, LONG_MS);
        CHECK(result != NULL && result->status == 0);
        threadpool_result_free(result);
    }
    CHECK(threadpool_next_result(pool, 0) == NULL && threadpool_last_error_code() == ERR_NOT_ENDED);

    uint64_t task = threadpool_submit_streaming(pool, "{\"handler\": \"count_up\"}");
    CHECK(task != 0);
    result_t* part;
    int count = 0;
    while ((part = threadpool_next_partial(pool, task, LONG_MS)) != NULL) {
        CHECK(strstr(part->data, "\"partial\":") != NULL);
        threadpool_result_free(part);
        count++;
    }
    CHECK(count == 5 && threadpool_last_error_code() == ERR_SUCCESS);
    result_t* result = threadpool_wait_result(pool, task, LONG_MS);
    CHECK(result != NULL && result->status == 0);
    threadpool_result_free(result);

    task = threadpool_submit(pool, "{\"handler\": \"sleep\", \"args\": {\"ms\": 3600000}}");
    CHECK(threadpool_wait_result(pool, task, 1) == NULL && threadpool_last_error_code() == ERR_NOT_ENDED);
    CHECK(threadpool_cancel(pool, task) == 0);
    result = threadpool_wait_result(pool, task, LONG_MS);
    CHECK(result != NULL && result->status == ERR_CANCELLED);
    threadpool_result_free(result);

    task = threadpool_submit(pool, "{\"handler\": \"ecko\"}");
    result = task == 0 ? NULL : threadpool_wait_result(pool, task, LONG_MS);
    CHECK(task == 0 || (result != NULL && result->status == ERR_UNKNOWN_OPCODE));
    threadpool_result_free(result);

    /* Leaving waits for those who are promised a call. */
    for (int i = 0; i < 50; i++) {
        CHECK(threadpool_submit_with_callback(pool, "{\"handler\": \"echo\", \"args\": {\"n\": 2}}", on_end,
                                              "{\"n\": 2}") != 0);
    }
    threadpool_shutdown(pool);
    CHECK(atomic_load(&called) == 50);
    puts("ok");
    return 0;
}
