/* What a program may get wrong: every call is given NULL, strangers, what was freed, what is no UTF-8 and no JSON. It
 * answers with a code and a sentence, and goes on. */
#include "check.h"
#include "connection_queue.h"

static void handler_nothing(task_t* task) {
    (void)task;
}

static task_t* kept;

static void handler_keeper(task_t* task) {
    kept = task;
    CHECK(threadpool_set_result(task, "{", 1) == ERR_HANDLER_ERROR);
    CHECK(strstr(threadpool_last_error(), "expected JSON") != NULL);
    CHECK(threadpool_set_result(task, "\xFF", 1) == ERR_HANDLER_ERROR);
    CHECK(threadpool_set_result(task, NULL, 4) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_partial(task, "nope") == ERR_HANDLER_ERROR);
    CHECK(threadpool_partial(task, NULL) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_set_result(task, "[1,\n2]", 6) == 0);
}

static void callback(result_t* result, void* user_data) {
    (void)result;
    (void)user_data;
    CHECK(!"this callback belongs to no task");
}

static void nulls(void) {
    CHECK(threadpool_submit(NULL, "{}") == 0 && threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_submit_with_callback(NULL, "{}", callback, NULL) == 0);
    CHECK(threadpool_submit_streaming(NULL, NULL) == 0);
    CHECK(threadpool_poll_result(NULL, 1) == NULL);
    CHECK(threadpool_wait_result(NULL, 1, 0) == NULL);
    CHECK(threadpool_next_result(NULL, 0) == NULL);
    CHECK(threadpool_next_partial(NULL, 1, 0) == NULL);
    CHECK(threadpool_cancel(NULL, 1) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_symbols(NULL) == NULL);
    CHECK(strcmp(threadpool_last_error(), "pool: expected an open one, got NULL") == 0);
    threadpool_result_free(NULL);
    threadpool_shutdown(NULL);
    CHECK(threadpool_register_handler(NULL, NULL, handler_nothing, 0) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_register_handler(NULL, "nothing", NULL, 0) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_register_handler(NULL, "No Name", handler_nothing, 0) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_register_handler(NULL, "echo", handler_nothing, 0) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_register_handler(NULL, "nothing", handler_nothing, 77) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_set_result(NULL, "1", 1) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_set_error(NULL, -5, "x") == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_partial(NULL, "1") == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_is_cancelled(NULL) == 1);
    symbol_register(NULL, "a", &kept, 1);
    CHECK(symbol_resolve(NULL, "a", NULL) == NULL);
    symbol_unregister(NULL, "a");
    CHECK(connection_queue_init(NULL) == -1);
    CHECK(connection_queue_enqueue(NULL, 1) == -1);
    CHECK(connection_queue_try_enqueue(NULL, 1) == -1);
    CHECK(connection_queue_dequeue(NULL) == -1);
    CHECK(connection_queue_size(NULL) == -1);
    connection_queue_shutdown(NULL);
    connection_queue_destroy(NULL);
}

static void configurations(void) {
    CHECK(threadpool_create("/nowhere/config") == NULL);
    CHECK(strstr(threadpool_last_error(), "/nowhere/config: expected a configuration that can be read") != NULL);
    CHECK(threadpool_create("/") == NULL);
    CHECK(threadpool_create("\xFF\xFE") == NULL && strstr(threadpool_last_error(), "UTF-8") != NULL);
    CHECK(threadpool_attach("\xFF") == NULL);
    CHECK(threadpool_attach("No Such Name") == NULL);
    CHECK(threadpool_attach("nobody-serves-this") == NULL);
    CHECK(threadpool_last_error_code() == ERR_NOT_FOUND);
}

static void strangers(threadpool_t* pool) {
    uint64_t stranger[64];
    memset(stranger, 0, sizeof stranger);
    CHECK(threadpool_submit((threadpool_t*)stranger, "{}") == 0);
    threadpool_shutdown((threadpool_t*)stranger);
    CHECK(threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
    threadpool_result_free((result_t*)stranger);
    CHECK(threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_set_result((task_t*)stranger, "1", 1) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_submit((threadpool_t*)threadpool_symbols(pool), "{}") == 0);
    CHECK(connection_queue_size((connection_queue_t*)stranger) == -1);
    connection_queue_destroy((connection_queue_t*)stranger);
}

static void requests(threadpool_t* pool) {
    static const char* const wrong[] = {"",        "{",          "[]",           "null",        "{\"opcode\": 0}",
                                        "\xFF",    "{\"a\": 1}", "{\"opcode\": \"1\"}", "{\"handler\": \"echo\", \"args\": 3}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(threadpool_submit(pool, wrong[i]) == 0);
        CHECK(threadpool_last_error_code() == ERR_INVALID_JSON);
        CHECK(threadpool_submit_with_callback(pool, wrong[i], callback, NULL) == 0);
        CHECK(threadpool_submit_streaming(pool, wrong[i]) == 0);
    }
    CHECK(threadpool_submit(pool, "{\"handler\": \"ecko\"}") == 0);
    CHECK(threadpool_last_error_code() == ERR_UNKNOWN_OPCODE);
    CHECK(strstr(threadpool_last_error(), "did you mean echo?") != NULL);
    CHECK(threadpool_submit_with_callback(pool, "{\"handler\": \"echo\"}", NULL, NULL) == 0);
    CHECK(threadpool_poll_result(pool, 0) == NULL && threadpool_last_error_code() == ERR_NOT_FOUND);
    CHECK(threadpool_wait_result(pool, 999999, 10) == NULL && threadpool_last_error_code() == ERR_NOT_FOUND);
    CHECK(threadpool_next_partial(pool, 999999, 0) == NULL && threadpool_last_error_code() == ERR_NOT_FOUND);
    CHECK(threadpool_cancel(pool, 999999) == ERR_RESULT_GONE);
    CHECK(threadpool_next_result(pool, 0) == NULL && threadpool_last_error_code() == ERR_NOT_ENDED);
}

static void once(threadpool_t* pool) {
    uint64_t task = threadpool_submit(pool, "{\"handler\": \"keeper\"}");
    result_t* result = threadpool_wait_result(pool, task, LONG_MS);
    CHECK(result != NULL && result->status == ERR_SUCCESS);
    CHECK(strcmp(result->data, "[1, 2]") == 0 && result->data_size == 6);
    /* A handler's task is good until the handler has returned. */
    CHECK(threadpool_set_result(kept, "1", 1) == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_is_cancelled(kept) == 1);
    /* A result is fetched once and freed once, whatever was written into it. */
    CHECK(threadpool_poll_result(pool, task) == NULL && threadpool_last_error_code() == ERR_RESULT_GONE);
    CHECK(threadpool_next_partial(pool, task, 0) == NULL && threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
    CHECK(threadpool_cancel(pool, task) == ERR_RESULT_GONE);
    result->data = NULL;
    result->data_size = 12345;
    threadpool_result_free(result);
    threadpool_result_free(result);
    CHECK(threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
}

static void queues(void) {
    connection_queue_t queue;
    CHECK(connection_queue_init(&queue) == 0);
    CHECK(connection_queue_try_enqueue(&queue, -1) == -1);
    CHECK(strstr(threadpool_last_error(), "did accept() fail?") != NULL);
    connection_queue_destroy(&queue);
    CHECK(connection_queue_dequeue(&queue) == -1);
    CHECK(strstr(threadpool_last_error(), "got one that was destroyed") != NULL);
    connection_queue_destroy(&queue);
    CHECK(connection_queue_init(&queue) == 0 && connection_queue_size(&queue) == 0);
    connection_queue_destroy(&queue);
}

int main(void) {
    CHECK(threadpool_last_error_code() == 0 && strcmp(threadpool_last_error(), "") == 0);
    CHECK(strcmp(threadpool_version(), "0.1.0") == 0);
    nulls();
    configurations();
    CHECK(threadpool_register_handler(NULL, "keeper", handler_keeper, 0) == 0);
    threadpool_t* pool = threadpool_create(NULL);
    CHECK(pool != NULL);
    strangers(pool);
    requests(pool);
    once(pool);
    queues();
    symbol_table_t* symbols = threadpool_symbols(pool);
    threadpool_shutdown(pool);
    CHECK(threadpool_submit(pool, "{\"handler\": \"echo\"}") == 0);
    CHECK(threadpool_wait_result(pool, 1, 0) == NULL);
    symbol_register(symbols, "late", &kept, 1);
    CHECK(threadpool_last_error_code() == ERR_BAD_ARGUMENTS);
    threadpool_shutdown(pool);
    puts("ok");
    return 0;
}
