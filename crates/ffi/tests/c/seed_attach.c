/* The program with which the specification shows how to attach, its calls as they are, and what it would do next. */
#include "check.h"

int main(void) {
    threadpool_t* pool = threadpool_attach("myapp"); /* Attach to existing pool */
    CHECK(pool != NULL);

    uint64_t task_id = threadpool_submit(pool,
        "{\"opcode\": 1, \"args\": {\"url\": \"http://example.com\"}}");

    result_t* result = threadpool_wait_result(pool, task_id, 5000);
    CHECK(result != NULL);
    printf("%d %s\n", (int)result->status, result->status == 0 ? (char*)result->data : result->error_msg);
    threadpool_result_free(result);
    threadpool_shutdown(pool);
    return 0;
}
