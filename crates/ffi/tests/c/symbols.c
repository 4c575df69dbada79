/* Memory of the program's that tasks reach by name, and get back only when no task can touch it. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

static atomic_int unregistered;
static symbol_table_t* symbols;

static result_t* run(threadpool_t* pool, const char* json) {
    uint64_t task = threadpool_submit(pool, json);
    return task == 0 ? NULL : threadpool_wait_result(pool, task, LONG_MS);
}

static void* unregister(void* name) {
    symbol_unregister(symbols, name);
    atomic_store(&unregistered, 1);
    return NULL;
}

int main(void) {
    char response[32] = "";
    char* lent = malloc(16);
    uint32_t size = 0;
    threadpool_t* pool = threadpool_create(NULL);
    CHECK(pool != NULL);
    symbols = threadpool_symbols(pool);
    CHECK(symbols != NULL);

    symbol_register(symbols, "response_buffer", response, sizeof response);
    CHECK(symbol_resolve(symbols, "response_buffer", &size) == response && size == sizeof response);
    CHECK(symbol_resolve(symbols, "response_buffer", NULL) == response);
    CHECK(symbol_resolve(symbols, "request", &size) == NULL);
    CHECK(threadpool_last_error_code() == ERR_SYMBOL_NOT_FOUND);

    /* The request of the specification. */
    result_t* result = run(pool, "{\"handler\": \"write_memory\", \"args\": {\"write_to\": \"response_buffer\", "
                                 "\"data\": \"Hello, world!\"}}");
    CHECK(result != NULL && result->status == 0 && strcmp(response, "Hello, world!") == 0);
    /* A result that is kept holds no memory; unregistering does not wait for it to be fetched. */
    uint64_t kept = threadpool_submit(pool, "{\"handler\": \"read_memory\", \"args\": {\"read_from\": \"response_buffer\"}}");
    CHECK(kept != 0);
    symbol_unregister(symbols, "response_buffer");
    CHECK(symbol_resolve(symbols, "response_buffer", NULL) == NULL);
    threadpool_result_free(result);
    result = threadpool_wait_result(pool, kept, LONG_MS);
    CHECK(result != NULL && result->status == 0 && strstr(result->data, "Hello, world!") != NULL);
    threadpool_result_free(result);
    CHECK(run(pool, "{\"handler\": \"write_memory\", \"args\": {\"write_to\": \"response_buffer\", \"data\": \"x\"}}") == NULL);
    CHECK(threadpool_last_error_code() == ERR_SYMBOL_NOT_FOUND);

    /* A name is taken once, must be a name, and must lend something. */
    symbol_register(symbols, "lent", lent, 16);
    symbol_register(symbols, "lent", response, 16);
    CHECK(strstr(threadpool_last_error(), "the name is taken") != NULL);
    CHECK(symbol_resolve(symbols, "lent", &size) == lent && size == 16);
    symbol_register(symbols, "", response, 16);
    CHECK(threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
    symbol_register(symbols, "nothing", NULL, 16);
    CHECK(strstr(threadpool_last_error(), "expected memory, got NULL") != NULL);
    symbol_unregister(symbols, "nothing");
    CHECK(strstr(threadpool_last_error(), "no region has this name") != NULL);

    /* A task that waits for its time holds the memory; cancelling it gives the memory back. */
    uint64_t delayed = threadpool_submit(pool, "{\"handler\": \"write_memory\", \"delay_ms\": 3600000, "
                                               "\"args\": {\"write_to\": \"lent\", \"data\": \"too late\"}}");
    CHECK(delayed != 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, unregister, "lent") == 0);
    while (symbol_resolve(symbols, "lent", NULL) != NULL) usleep(1000);
    CHECK(atomic_load(&unregistered) == 0);
    CHECK(threadpool_cancel(pool, delayed) == 0);
    pthread_join(thread, NULL);
    CHECK(atomic_load(&unregistered) == 1);
    free(lent);
    threadpool_shutdown(pool);
    puts("ok");
    return 0;
}
