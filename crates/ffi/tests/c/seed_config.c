/* The specification's configuration file, with its handlers by their opcodes: millpond's own, and one of this program.
 * Given one that is wrong, it says why and ends with 2. */
#include "check.h"

void handler_exported(task_t* task);
void handler_exported(task_t* task) {
    threadpool_set_result(task, "\"mine\"", 6);
}

int main(int argc, char** argv) {
    CHECK(argc == 2);
    threadpool_t* pool = threadpool_create(argv[1]);
    if (pool == NULL) {
        printf("%d %s\n", (int)threadpool_last_error_code(), threadpool_last_error());
        return 2;
    }
    char buffer[16] = "";
    symbol_register(threadpool_symbols(pool), "response_buffer", buffer, sizeof buffer);
    uint64_t written = threadpool_submit(
        pool, "{\"opcode\": 3, \"args\": {\"write_to\": \"response_buffer\", \"data\": \"Hello, world!\"}}");
    /* Nothing may be reached that the configuration does not allow. */
    uint64_t fetched = threadpool_submit(pool, "{\"opcode\": 1, \"args\": {\"url\": \"http://example.com\"}}");
    uint64_t mine = threadpool_submit(pool, "{\"opcode\": 9, \"args\": {}}");
    CHECK(written != 0 && fetched != 0 && mine != 0);

    result_t* result;
    while ((result = threadpool_poll_result(pool, written)) == NULL) {
        CHECK(threadpool_last_error_code() == ERR_NOT_ENDED);
    }
    CHECK(result->status == 0 && strcmp(buffer, "Hello, world!") == 0);
    threadpool_result_free(result);
    result = threadpool_wait_result(pool, fetched, LONG_MS);
    CHECK(result != NULL && result->status == ERR_NOT_ALLOWED && result->data == NULL);
    threadpool_result_free(result);
    result = threadpool_wait_result(pool, mine, LONG_MS);
    CHECK(result != NULL && strcmp(result->data, "\"mine\"") == 0);
    threadpool_result_free(result);
    threadpool_shutdown(pool);
    puts("ok");
    return 0;
}
