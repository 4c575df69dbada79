/* Many threads at both ends of a connection queue: every descriptor arrives once, and a shutdown lets everybody go,
 * more consumers than the queue has places among them. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "connection_queue.h"

#define PRODUCERS 4
#define CONSUMERS 120
#define EACH_MAX 2500

static connection_queue_t queue;
static int each;
static atomic_int seen[PRODUCERS * EACH_MAX];
static atomic_int taken;

static void* produce(void* arg) {
    int first = *(int*)arg * each;
    for (int i = 0; i < each; i++) CHECK(connection_queue_enqueue(&queue, first + i) == 0);
    return NULL;
}

static void* consume(void* arg) {
    (void)arg;
    int fd;
    while ((fd = connection_queue_dequeue(&queue)) >= 0) {
        atomic_fetch_add(&seen[fd], 1);
        atomic_fetch_add(&taken, 1);
    }
    return NULL;
}

/* Stays in a full queue until that is shut down. */
static void* wait_for_room(void* arg) {
    connection_queue_t* full = arg;
    while (connection_queue_enqueue(full, 7) == 0) {
    }
    return NULL;
}

int main(void) {
    each = often(EACH_MAX);
    pthread_t producers[PRODUCERS], consumers[CONSUMERS], waiting[8];
    int numbers[PRODUCERS];
    CHECK(connection_queue_init(&queue) == 0);
    for (int i = 0; i < CONSUMERS; i++) CHECK(pthread_create(&consumers[i], NULL, consume, NULL) == 0);
    for (int i = 0; i < PRODUCERS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&producers[i], NULL, produce, &numbers[i]) == 0);
    }
    for (int i = 0; i < PRODUCERS; i++) pthread_join(producers[i], NULL);
    connection_queue_shutdown(&queue);
    for (int i = 0; i < CONSUMERS; i++) pthread_join(consumers[i], NULL);
    CHECK(atomic_load(&taken) == PRODUCERS * each);
    for (int i = 0; i < PRODUCERS * each; i++) CHECK(atomic_load(&seen[i]) == 1);
    connection_queue_destroy(&queue);

    /* Producers in a full queue are woken too, also by a destroy that nobody announced. */
    connection_queue_t full;
    CHECK(connection_queue_init(&full) == 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&waiting[i], NULL, wait_for_room, &full) == 0);
    while (connection_queue_size(&full) < QUEUE_SIZE) sched_yield();
    connection_queue_destroy(&full);
    for (int i = 0; i < 8; i++) pthread_join(waiting[i], NULL);
    puts("ok");
    return 0;
}
