/* A pool with a name of its own is attached to by that name; here by the same program, as any other could. */
#include "check.h"

int main(int argc, char** argv) {
    CHECK(argc == 2);
    CHECK(threadpool_attach("shop") == NULL);
    threadpool_t* pool = threadpool_create(argv[1]);
    CHECK(pool != NULL);
    threadpool_t* guest = threadpool_attach("shop");
    CHECK(guest != NULL);
    for (int round = 0; round < 100; round++) {
        uint64_t task = threadpool_submit(guest, "{\"handler\": \"echo\", \"args\": {\"n\": 1}}");
        CHECK(task != 0);
        result_t* result = threadpool_wait_result(guest, task, 60000);
        CHECK(result != NULL && result->status == 0);
        CHECK(strcmp((char*)result->data, "{\"n\": 1}") == 0);
        threadpool_result_free(result);
    }
    threadpool_shutdown(guest);
    threadpool_shutdown(pool);
    CHECK(threadpool_attach("shop") == NULL);
    puts("ok");
    return 0;
}
