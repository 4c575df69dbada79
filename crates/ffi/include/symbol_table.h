/* Memory of the program's that tasks reach by name.
 * Made from the Rust code by `cargo xtask gen`; do not edit. */

#ifndef MILLPOND_SYMBOL_TABLE_H
#define MILLPOND_SYMBOL_TABLE_H

#include <stdint.h>

/**
 * Names for memory. threadpool_symbols() gives the table of a pool.
 */
struct symbol_table;

/**
 * Names for memory.
 */
typedef struct symbol_table symbol_table_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Lends memory to tasks under a name of 1 to 64 bytes: {"handler": "write_memory", "args": {"write_to":
 * "response", ...}}. It must stay until symbol_unregister() has returned or the pool was shut down. Tasks
 * see each other's writes whole; while tasks that name it are under way, reading or writing it yourself is a
 * race. A failure is told by threadpool_last_error_code().
 */
void symbol_register(symbol_table_t *st, const char *name, void *ptr, uint32_t size);

/**
 * The memory that was registered under a name, and its size unless `out_size` is NULL. NULL if there is none.
 */
void *symbol_resolve(symbol_table_t *st, const char *name, uint32_t *out_size);

/**
 * Takes a name away. New tasks can no longer name the memory; this waits until those that did have ended, so
 * that the memory is the program's again when it returns. Not from a handler that was given the memory.
 */
void symbol_unregister(symbol_table_t *st, const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLPOND_SYMBOL_TABLE_H */
