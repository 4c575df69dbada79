/* A bounded queue of file descriptors between threads.
 * Made from the Rust code by `cargo xtask gen`; do not edit. */

#ifndef MILLPOND_CONNECTION_QUEUE_H
#define MILLPOND_CONNECTION_QUEUE_H

#include <stdint.h>

/**
 * How many connections a queue holds.
 */
#define QUEUE_SIZE 100

/**
 * A queue of file descriptors. Its memory is yours; what is in it is not.
 */
struct connection_queue {
  /**
   * Not to be touched.
   */
  uint64_t opaque[64];
};

/**
 * A queue of file descriptors.
 */
typedef struct connection_queue connection_queue_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a queue for QUEUE_SIZE connections. Returns 0, or -1 if there is no memory or `queue` is NULL.
 */
int connection_queue_init(connection_queue_t *queue);

/**
 * Adds a connection, waiting for place. Returns 0, or -1 if the queue is shut down, the descriptor is
 * negative, or the queue is none.
 */
int connection_queue_enqueue(connection_queue_t *queue, int client_fd);

/**
 * As connection_queue_enqueue, but returns -1 at once if the queue is full; threadpool_last_error_code() is
 * then ERR_QUEUE_FULL, and ERR_DRAINING if it is shut down.
 */
int connection_queue_try_enqueue(connection_queue_t *queue, int client_fd);

/**
 * Takes the oldest connection, waiting for one. Returns -1 if the queue is shut down and everything in it
 * was taken.
 */
int connection_queue_dequeue(connection_queue_t *queue);

/**
 * How many connections wait, which may have changed by the time it is read. -1 if the queue is none.
 */
int connection_queue_size(connection_queue_t *queue);

/**
 * Takes no more connections and wakes everybody who waits. What is in the queue can still be taken.
 */
void connection_queue_shutdown(connection_queue_t *queue);

/**
 * Frees a queue. It is shut down first; connections that are still in it are forgotten, not closed.
 */
void connection_queue_destroy(connection_queue_t *queue);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLPOND_CONNECTION_QUEUE_H */
