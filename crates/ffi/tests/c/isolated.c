/* Handlers in processes of their own: one that crashes, or never ends, costs its task and nothing else. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"

static void crash(task_t* task) {
    (void)task;
    raise(SIGSEGV);
}

static void forever(task_t* task) {
    (void)task;
    for (;;) pause();
}

static void whose(task_t* task) {
    char text[32];
    int size = snprintf(text, sizeof text, "%ld", (long)getpid());
    CHECK(threadpool_partial(task, "\"from far away\"") == 0);
    CHECK(threadpool_set_result(task, text, (uint32_t)size) == 0);
}

static void* nothing(void* arg) {
    return arg;
}

static result_t* run(threadpool_t* pool, const char* json) {
    uint64_t task = threadpool_submit(pool, json);
    CHECK(task != 0);
    result_t* result = threadpool_wait_result(pool, task, LONG_MS);
    CHECK(result != NULL);
    return result;
}

static void in_another_process(threadpool_t* pool) {
    result_t* result = run(pool, "{\"handler\": \"whose\"}");
    CHECK(result->status == 0 && atol(result->data) > 0 && atol(result->data) != (long)getpid());
    threadpool_result_free(result);
}

int main(int argc, char** argv) {
    CHECK(argc == 2);
    CHECK(threadpool_register_handler(NULL, "crash", crash, 0) == 0);
    CHECK(threadpool_register_handler(NULL, "forever", forever, 0) == 0);
    CHECK(threadpool_register_handler(NULL, "whose", whose, 0) == 0);
    threadpool_t* pool = threadpool_create(argv[1]);
    CHECK(pool != NULL);
    in_another_process(pool);
    for (int i = 0; i < 3; i++) {
        result_t* result = run(pool, "{\"handler\": \"crash\"}");
        CHECK(result->status == ERR_HANDLER_CRASH && strstr(result->error_msg, "signal 11") != NULL);
        threadpool_result_free(result);
    }
    result_t* result = run(pool, "{\"handler\": \"forever\", \"timeout_ms\": 100}");
    CHECK(result->status == ERR_TIMEOUT);
    threadpool_result_free(result);
    in_another_process(pool);

    /* Memory of the program's is reached all the same. */
    char buffer[16] = "";
    symbol_register(threadpool_symbols(pool), "buffer", buffer, sizeof buffer);
    result = run(pool, "{\"handler\": \"write_memory\", \"args\": {\"write_to\": \"buffer\", \"data\": \"here\"}}");
    CHECK(result->status == 0 && strcmp(buffer, "here") == 0);
    threadpool_result_free(result);
    symbol_unregister(threadpool_symbols(pool), "buffer");

    CHECK(threadpool_register_handler(pool, "late", whose, 0) == ERR_BAD_ARGUMENTS);
    CHECK(strstr(threadpool_last_error(), "before the pool was created") != NULL);

    /* A program that has threads can no longer be copied; the pool that runs is one with threads. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
    CHECK(threadpool_create(argv[1]) == NULL);
    CHECK(strstr(threadpool_last_error(), "expected a process with one thread") != NULL);
    pthread_join(thread, NULL);
    threadpool_shutdown(pool);
    puts("ok");
    return 0;
}
