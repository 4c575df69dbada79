/* A pool of workers that run tasks asked for in JSON. docs/c.md is the guide.
 * Made from the Rust code by `cargo xtask gen`; do not edit. */

#ifndef MILLPOND_THREADPOOL_H
#define MILLPOND_THREADPOOL_H

#include <stdint.h>
#include "symbol_table.h"

/* What can go wrong; docs/errors.md is the table. */
/** The task did what it was asked to do. */
#define ERR_SUCCESS 0
/** No handler has this opcode or this name. */
#define ERR_UNKNOWN_OPCODE (-1)
/** The request is not JSON, or says something it may not. */
#define ERR_INVALID_JSON (-2)
/** No memory region has this name. */
#define ERR_SYMBOL_NOT_FOUND (-3)
/** There was not enough memory to run the task. */
#define ERR_MALLOC_FAILED (-4)
/** The handler panicked, was killed or left without an answer. */
#define ERR_HANDLER_CRASH (-5)
/** The task ran longer than it was allowed to. */
#define ERR_TIMEOUT (-6)
/** Somebody cancelled the task. */
#define ERR_CANCELLED (-101)
/** The task was refused because the queue is full. */
#define ERR_QUEUE_FULL (-102)
/** The task was refused because the pool is shutting down. */
#define ERR_DRAINING (-103)
/** The time allowed was over before the task began. */
#define ERR_EXPIRED (-104)
/** The task waited in a full queue and made room for another. */
#define ERR_DROPPED (-105)
/** The task ended, and its result is no longer kept. */
#define ERR_RESULT_GONE (-106)
/** The allow-list does not permit this file, address or region. */
#define ERR_NOT_ALLOWED (-107)
/** The handler does not accept these arguments. */
#define ERR_BAD_ARGUMENTS (-108)
/** The handler ran and reported an error of its own. */
#define ERR_HANDLER_ERROR (-109)
/** The request or the result is larger or deeper than the limits. */
#define ERR_TOO_LARGE (-110)
/** Another task has this id. */
#define ERR_DUPLICATE_ID (-111)
/** No task has this id. */
#define ERR_NOT_FOUND (-112)
/** The task has ended and can no longer be changed. */
#define ERR_ALREADY_ENDED (-113)
/** The idempotency key belongs to a request that says something else. */
#define ERR_KEY_REUSED (-114)
/** Every attempt failed, and no further one is allowed. */
#define ERR_RETRIES_EXHAUSTED (-115)
/** The task has not ended, and only one that has can be asked for this. */
#define ERR_NOT_ENDED (-116)
/** The daemon died while it had the task, which may have run. */
#define ERR_DAEMON_DIED (-117)
/** The task was refused because the journal's disk has no room. */
#define ERR_JOURNAL_FULL (-118)
/** The journal cannot be written; a restart is needed. */
#define ERR_JOURNAL_FAILED (-119)
/** The daemon stopped; the task is kept and goes on after the restart. */
#define ERR_POSTPONED (-120)
/** This is a mistake of millpond itself; please report it. */
#define ERR_INTERNAL (-199)

/**
 * The handler has answered. Setting it changes nothing: a handler has answered when it returns.
 */
#define FLAG_COMPLETE 1

/**
 * The task failed. A handler that sets this fails with ERR_HANDLER_ERROR; what `result` points to is taken for
 * the message.
 */
#define FLAG_ERROR 2

/**
 * The handler takes microseconds and neither waits nor streams, so that whoever submits a task may run it.
 */
#define THREADPOOL_QUICK 1

/**
 * A pool. Every call may be made by any thread.
 */
struct threadpool;

/**
 * A pool.
 */
typedef struct threadpool threadpool_t;

/**
 * How a task ended. It belongs to whoever was given it, until threadpool_result_free().
 */
struct result {
  /**
   * The number that submitting gave.
   */
  uint64_t task_id;
  /**
   * 0, or one of the error codes.
   */
  int32_t status;
  /**
   * What the handler answered: a JSON text that ends with NUL. NULL if the task failed.
   */
  void *data;
  /**
   * How many bytes the text has; the NUL is not counted.
   */
  uint32_t data_size;
  /**
   * Why the task failed, cut to fit; empty if it did not.
   */
  char error_msg[256];
};

/**
 * How a task ended.
 */
typedef struct result result_t;

/**
 * Is told how a task ended. The result is freed when this returns, unless it was freed before. It runs on a
 * thread of the pool's own, one at a time, and must not throw.
 */
typedef void (*result_callback_fn)(result_t *result, void *user_data);

/**
 * One attempt of one task, in the hands of its handler. It belongs to the pool and is good until the handler
 * returns.
 */
struct task {
  /**
   * The opcode that calls this handler; 0 if it has a name alone.
   */
  uint32_t opcode;
  /**
   * The arguments: a JSON object on one line, as a string that ends with NUL.
   */
  void *args;
  /**
   * The worker that runs it, from 1.
   */
  uint32_t assigned_to;
  /**
   * FLAG_COMPLETE and FLAG_ERROR in the low 16 bits. Leave the others alone.
   */
  uint32_t flags;
  /**
   * The number of the task. The number that a request gave as `task_id`, if it gave one.
   */
  uint64_t task_id;
  /**
   * NULL. A handler may put a JSON text here that malloc() allocated; the pool frees it.
   * threadpool_set_result does the same without malloc().
   */
  void *result;
  /**
   * How many bytes that text has, without a NUL.
   */
  uint32_t result_size;
};

/**
 * One attempt of one task.
 */
typedef struct task task_t;

/**
 * A function that runs tasks. It may be called by several threads at once, and must neither throw nor
 * longjmp() out.
 */
typedef void (*handler_fn)(task_t *task);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Starts a pool in this process. `config_path` is a file of key=value lines, or of TOML if its name ends in
 * .toml; NULL means the defaults. Variables of the environment (MILLPOND_WORKERS and the like) win over the
 * file. NULL if it could not be started.
 */
threadpool_t *threadpool_create(const char *config_path);

/**
 * Attaches to the pool of a daemon (`millpond serve`) on this machine, by the name it was given. NULL or "" is
 * "millpond". NULL if there is none.
 */
threadpool_t *threadpool_attach(const char *name);

/**
 * Submits a task: {"opcode": 1, "args": {...}} or {"handler": "echo", "args": {...}}. Never waits. Returns
 * its number, or 0 if it was refused. Its result has to be fetched.
 */
uint64_t threadpool_submit(threadpool_t *pool, const char *json);

/**
 * As threadpool_submit, but the result goes to `callback`, on a thread of the pool's own. It is called
 * exactly once for every task that was accepted, and never after threadpool_shutdown has returned.
 */
uint64_t threadpool_submit_with_callback(threadpool_t *pool,
                                         const char *json,
                                         result_callback_fn callback,
                                         void *user_data);

/**
 * As threadpool_submit, for a task whose partial results are wanted too: threadpool_next_partial gives them.
 */
uint64_t threadpool_submit_streaming(threadpool_t *pool, const char *json);

/**
 * The result of a task that has ended. It is handed over once; free it. NULL if the task has not ended
 * (threadpool_last_error_code() is then ERR_NOT_ENDED), or there is no such result.
 */
result_t *threadpool_poll_result(threadpool_t *pool, uint64_t task_id);

/**
 * As threadpool_poll_result, but waits for the end, at most so many milliseconds.
 */
result_t *threadpool_wait_result(threadpool_t *pool, uint64_t task_id, uint32_t timeout_ms);

/**
 * The result of whichever task ended first and was not fetched, waiting for one at most so many
 * milliseconds. Tasks with a callback are not among them.
 */
result_t *threadpool_next_result(threadpool_t *pool, uint32_t timeout_ms);

/**
 * What a task of threadpool_submit_streaming says next, waiting for it at most so many milliseconds. The
 * data is one of {"offset":0,"attempt":1,"partial":...}, with "progress", "log" or "missed" in place of
 * "partial". Free it. NULL with ERR_NOT_ENDED if there is nothing yet; NULL with ERR_SUCCESS if the task has
 * ended and said no more. Its result is then still to be fetched.
 */
result_t *threadpool_next_partial(threadpool_t *pool, uint64_t task_id, uint32_t timeout_ms);

/**
 * Cancels a task: it ends with ERR_CANCELLED, at once for everybody who waits. A handler that runs is told by
 * threadpool_is_cancelled. Returns 0 or an error code.
 */
int threadpool_cancel(threadpool_t *pool, uint64_t task_id);

/**
 * Frees a result. NULL is fine; one that was freed is noticed and left alone.
 */
void threadpool_result_free(result_t *result);

/**
 * Takes no more tasks, finishes those that were accepted (for as long as the setting drain_timeout says;
 * then they are cancelled), ends all threads and frees the pool. When it returns no handler and no callback
 * runs. A pool of threadpool_attach is only left; the daemon goes on. NULL is fine. Not from a handler or a
 * callback of the same pool.
 */
void threadpool_shutdown(threadpool_t *pool);

/**
 * The table of named memory of a pool of threadpool_create, for symbol_register() and its kin. It lives as
 * long as the pool. NULL for a pool of threadpool_attach.
 */
symbol_table_t *threadpool_symbols(threadpool_t *pool);

/**
 * What the last call that failed on this thread had to say; "" if none has. Good until the next one fails.
 */
const char *threadpool_last_error(void);

/**
 * The error code of the last call that failed on this thread; 0 if none has.
 */
int32_t threadpool_last_error_code(void);

/**
 * The version of the library, for example "0.1.0".
 */
const char *threadpool_version(void);

/**
 * Makes a function a handler that requests may name: {"handler": "resize", ...}, and that a configuration
 * file may give an opcode: 7=handler_resize. With NULL for the pool it is for all pools that are created
 * later. Names are 1 to 64 of a-z, 0-9, _, . and -. `flags` is 0 or THREADPOOL_QUICK. Returns 0 or an error
 * code.
 */
int threadpool_register_handler(threadpool_t *pool, const char *name, handler_fn handler, uint32_t flags);

/**
 * Answers a task with a JSON text of `size` bytes, which is copied. The last answer counts; a handler that
 * gives none answers null. Returns 0 or an error code: the text is no JSON, or the task is none.
 */
int threadpool_set_result(task_t *task, const void *json, uint32_t size);

/**
 * Fails a task with one of the error codes (another number becomes ERR_HANDLER_ERROR) and a message, which
 * may be NULL. Returns 0 or an error code.
 */
int threadpool_set_error(task_t *task, int32_t code, const char *message);

/**
 * Adds a partial result, a JSON text, to the stream of a task. Waits while the stream is full and somebody
 * reads it. Returns 0 or an error code; ERR_CANCELLED if nobody wants more.
 */
int threadpool_partial(task_t *task, const char *json);

/**
 * Whether the answer of a task is no longer wanted: it was cancelled, its time is over, or the pool ends. 1
 * or 0; a pointer that is no task is 1, so that a loop that asks will end.
 */
int threadpool_is_cancelled(const task_t *task);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLPOND_THREADPOOL_H */
