/* Handlers in C: registered for all pools, on a pool that runs, or exported and named by the configuration; with
 * results, errors, partial results, cancelling, callbacks, and a shutdown that finishes what was accepted. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

static atomic_int entered, may_go, finished, called;

/* Exported, and named by the configuration as 9=handler_exported. */
void handler_exported(task_t* task);
void handler_exported(task_t* task) {
    char text[64];
    int size = snprintf(text, sizeof text, "{\"opcode\": %u, \"args\": \"%c\"}", task->opcode, *(char*)task->args);
    CHECK(threadpool_set_result(task, text, (uint32_t)size) == 0);
}

static void fail(task_t* task) {
    int code = atoi(strchr(task->args, ':') + 1);
    CHECK(threadpool_set_result(task, "1", 1) == 0);
    CHECK(threadpool_set_error(task, code, code == -4 ? NULL : "for a reason") == 0);
}

static void count_up(task_t* task) {
    char text[32];
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "{\"i\": %d}", i);
        CHECK(threadpool_partial(task, text) == 0);
    }
    /* In the fields of the task, as the specification has it. */
    task->result = malloc(4);
    memcpy(task->result, "\"up\"", 4);
    task->result_size = 4;
    task->flags |= FLAG_COMPLETE;
}

static void until_cancelled(task_t* task) {
    atomic_fetch_add(&entered, 1);
    while (!threadpool_is_cancelled(task)) usleep(1000);
    CHECK(threadpool_partial(task, "1") == ERR_CANCELLED);
    atomic_fetch_add(&finished, 1);
}

static void until_told(task_t* task) {
    atomic_fetch_add(&entered, 1);
    while (!atomic_load(&may_go)) usleep(1000);
    atomic_fetch_add(&finished, 1);
    threadpool_set_result(task, "true", 4);
}

static void* partial_from_outside(void* task) {
    CHECK(threadpool_partial(task, "\"from a thread of its own\"") == 0);
    return NULL;
}

static void with_a_thread(task_t* task) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, partial_from_outside, task) == 0);
    pthread_join(thread, NULL);
}

/* A handler may use the pool it runs in, and is kept from ending it. */
static threadpool_t* own_pool;

static void ends_its_pool(task_t* task) {
    threadpool_shutdown(own_pool);
    CHECK(strstr(threadpool_last_error(), "cannot shut its own pool down") != NULL);
    uint64_t inner = threadpool_submit(own_pool, "{\"handler\": \"echo\", \"args\": {\"inner\": true}}");
    result_t* result = threadpool_wait_result(own_pool, inner, LONG_MS);
    CHECK(result != NULL && threadpool_set_result(task, result->data, result->data_size) == 0);
    threadpool_result_free(result);
}

static void on_end(result_t* result, void* user_data) {
    CHECK(result->status == 0 && strcmp(result->data, "{\"n\":1}") == 0);
    CHECK(user_data == &called);
    atomic_fetch_add(&called, 1);
}

static void on_end_freeing(result_t* result, void* user_data) {
    CHECK(result->status == ERR_CANCELLED || result->status == 0);
    threadpool_result_free(result);
    threadpool_shutdown(user_data);
    CHECK(threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
    atomic_fetch_add(&called, 1);
}

static result_t* run(threadpool_t* pool, const char* json) {
    uint64_t task = threadpool_submit(pool, json);
    CHECK(task != 0);
    result_t* result = threadpool_wait_result(pool, task, LONG_MS);
    CHECK(result != NULL && result->task_id == task);
    return result;
}

static void expect(threadpool_t* pool, const char* json, int32_t status, const char* text) {
    result_t* result = run(pool, json);
    const char* got = status == 0 ? result->data : result->error_msg;
    if (result->status != status || strcmp(got, text) != 0) {
        fprintf(stderr, "%s: expected %d %s, got %d %s\n", json, (int)status, text, (int)result->status, got);
        exit(1);
    }
    CHECK(status != 0 || result->data_size == strlen(text));
    CHECK(status == 0 || (result->data == NULL && result->data_size == 0));
    threadpool_result_free(result);
}

static void streams(threadpool_t* pool) {
    uint64_t task = threadpool_submit_streaming(pool, "{\"handler\": \"count_up\"}");
    result_t* part;
    int count = 0;
    while ((part = threadpool_next_partial(pool, task, LONG_MS)) != NULL) {
        char expected[80];
        snprintf(expected, sizeof expected, "{\"offset\":%d,\"attempt\":1,\"partial\":{\"i\": %d}}", count, count);
        CHECK(part->status == 0 && strcmp(part->data, expected) == 0);
        threadpool_result_free(part);
        count++;
    }
    CHECK(count == 5 && threadpool_last_error_code() == ERR_SUCCESS);
    result_t* result = threadpool_wait_result(pool, task, LONG_MS);
    CHECK(result != NULL && strcmp(result->data, "\"up\"") == 0);
    threadpool_result_free(result);

    /* The result may be fetched first; the stream can still be read to its end. */
    task = threadpool_submit_streaming(pool, "{\"handler\": \"with_a_thread\"}");
    result = threadpool_next_result(pool, LONG_MS);
    CHECK(result != NULL && result->task_id == task && strcmp(result->data, "null") == 0);
    threadpool_result_free(result);
    part = threadpool_next_partial(pool, task, LONG_MS);
    CHECK(part != NULL && strstr(part->data, "from a thread of its own") != NULL);
    threadpool_result_free(part);
    CHECK(threadpool_next_partial(pool, task, LONG_MS) == NULL && threadpool_last_error_code() == ERR_SUCCESS);
    CHECK(threadpool_next_partial(pool, task, LONG_MS) == NULL && threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
}

static void cancelling(threadpool_t* pool) {
    uint64_t task = threadpool_submit_streaming(pool, "{\"handler\": \"until_cancelled\"}");
    while (atomic_load(&entered) < 1) usleep(1000);
    CHECK(threadpool_poll_result(pool, task) == NULL && threadpool_last_error_code() == ERR_NOT_ENDED);
    CHECK(threadpool_wait_result(pool, task, 1) == NULL && threadpool_last_error_code() == ERR_NOT_ENDED);
    CHECK(threadpool_next_partial(pool, task, 1) == NULL && threadpool_last_error_code() == ERR_NOT_ENDED);
    CHECK(threadpool_cancel(pool, task) == 0);
    result_t* result = threadpool_wait_result(pool, task, LONG_MS);
    CHECK(result != NULL && result->status == ERR_CANCELLED);
    threadpool_result_free(result);
    while (atomic_load(&finished) < 1) usleep(1000);
}

int main(int argc, char** argv) {
    CHECK(threadpool_register_handler(NULL, "fail", fail, 0) == 0);
    CHECK(threadpool_register_handler(NULL, "quick", fail, THREADPOOL_QUICK) == 0);
    CHECK(argc == 2);
    threadpool_t* pool = threadpool_create(argv[1]);
    CHECK(pool != NULL);
    own_pool = pool;
    expect(pool, "{\"opcode\": 9}", 0, "{\"opcode\": 9, \"args\": \"{\"}");
    expect(pool, "{\"handler\": \"exported\", \"task_id\": \"mine\"}", 0, "{\"opcode\": 9, \"args\": \"{\"}");
    expect(pool, "{\"handler\": \"fail\", \"args\": {\"code\": -6}}", ERR_TIMEOUT, "for a reason");
    expect(pool, "{\"handler\": \"fail\", \"args\": {\"code\": -4}}", ERR_MALLOC_FAILED, "");
    expect(pool, "{\"handler\": \"fail\", \"args\": {\"code\": 7}}", ERR_HANDLER_ERROR, "code 7: for a reason");
    expect(pool, "{\"handler\": \"quick\", \"args\": {\"code\": -5}}", ERR_HANDLER_CRASH, "for a reason");

    uint64_t quick = threadpool_submit(pool, "{\"handler\": \"quick\", \"args\": {\"code\": -5}}");
    CHECK(threadpool_cancel(pool, quick) == ERR_ALREADY_ENDED);
    result_t* at_once = threadpool_poll_result(pool, quick);
    CHECK(at_once != NULL && at_once->status == ERR_HANDLER_CRASH);
    threadpool_result_free(at_once);
    CHECK(threadpool_next_result(pool, 0) == NULL && threadpool_last_error_code() == ERR_NOT_ENDED);

    CHECK(threadpool_register_handler(pool, "count_up", count_up, 0) == 0);
    CHECK(threadpool_register_handler(pool, "count_up", count_up, 0) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_register_handler(pool, "until_cancelled", until_cancelled, 0) == 0);
    CHECK(threadpool_register_handler(pool, "until_told", until_told, 0) == 0);
    CHECK(threadpool_register_handler(pool, "with_a_thread", with_a_thread, 0) == 0);
    CHECK(threadpool_register_handler(pool, "ends_its_pool", ends_its_pool, 0) == 0);
    expect(pool, "{\"handler\": \"ends_its_pool\"}", 0, "{\"inner\": true}");
    streams(pool);
    cancelling(pool);

    for (int i = 0; i < 100; i++) {
        CHECK(threadpool_submit_with_callback(pool, "{\"handler\":\"echo\",\"args\":{\"n\":1}}", on_end, &called) > 0);
    }
    uint64_t with_callback = threadpool_submit_with_callback(pool, "{\"handler\": \"sleep\", \"args\": {\"ms\": 60000}}",
                                                             on_end_freeing, pool);
    CHECK(with_callback != 0);
    CHECK(threadpool_wait_result(pool, with_callback, 0) == NULL);
    CHECK(strstr(threadpool_last_error(), "goes to its callback") != NULL);
    CHECK(threadpool_cancel(pool, with_callback) == 0);
    while (atomic_load(&called) < 101) usleep(1000);

    /* A shutdown finishes what was accepted: more tasks than workers, and a callback that nobody waited for. */
    atomic_store(&finished, 0);
    for (int i = 0; i < 20; i++) CHECK(threadpool_submit(pool, "{\"handler\": \"until_told\"}") != 0);
    CHECK(threadpool_submit_with_callback(pool, "{\"handler\": \"until_told\"}", on_end_freeing, pool) != 0);
    atomic_store(&may_go, 1);
    threadpool_shutdown(pool);
    CHECK(atomic_load(&finished) == 21 && atomic_load(&called) == 102);
    puts("ok");
    return 0;
}
