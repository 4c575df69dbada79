/* The test cases that the specification of the connection queue gives, with its calls as they are. The helpers
 * `enqueue` and `dequeue` of its third case are the calls they stand for. */
#include <assert.h>

#include "check.h"
#include "connection_queue.h"

#define enqueue connection_queue_enqueue
#define dequeue connection_queue_dequeue

static void basic_enqueue_and_dequeue(void) {
    connection_queue_t q;
    connection_queue_init(&q);

    assert(connection_queue_try_enqueue(&q, 10) == 0);
    assert(connection_queue_dequeue(&q) == 10);
    assert(connection_queue_size(&q) == 0);
    connection_queue_destroy(&q);
}

static void queue_full(void) {
    connection_queue_t q;
    connection_queue_init(&q);

    for (int i = 0; i < 100; i++) {
        assert(connection_queue_try_enqueue(&q, i) == 0);
    }
    assert(connection_queue_try_enqueue(&q, 100) == -1);
    CHECK(threadpool_last_error_code() == ERR_QUEUE_FULL);
    CHECK(connection_queue_size(&q) == QUEUE_SIZE);
    connection_queue_destroy(&q);
}

static void circular_wrap_around(void) {
    connection_queue_t q;
    connection_queue_init(&q);

    for (int i = 0; i < 100; i++) enqueue(&q, i);

    for (int i = 0; i < 50; i++) dequeue(&q);

    for (int i = 100; i < 150; i++) {
        assert(connection_queue_try_enqueue(&q, i) == 0);
    }
    for (int i = 50; i < 150; i++) CHECK(dequeue(&q) == i);
    connection_queue_destroy(&q);
}

/* What is queued is served before the shutdown is told. */
static void shutdown_drains(void) {
    connection_queue_t q;
    connection_queue_init(&q);

    for (int i = 0; i < 3; i++) enqueue(&q, i);
    connection_queue_shutdown(&q);
    CHECK(connection_queue_try_enqueue(&q, 3) == -1);
    CHECK(threadpool_last_error_code() == ERR_DRAINING);
    for (int i = 0; i < 3; i++) CHECK(connection_queue_dequeue(&q) == i);
    CHECK(connection_queue_dequeue(&q) == -1);
    connection_queue_destroy(&q);
}

int main(void) {
    CHECK(sizeof(connection_queue_t) == 512);
    basic_enqueue_and_dequeue();
    queue_full();
    circular_wrap_around();
    shutdown_drains();
    puts("ok");
    return 0;
}
