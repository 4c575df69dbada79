/* Checksums of many files at once: `checksum FILE...`
 *
 * Each file is a task. They run on all processors, and their results are printed as they come. With `-a NAME` in front
 * the tasks go to the daemon of that name instead, which must have the handler (see handler.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threadpool.h>

#include "json_text.h"

void handler_checksum(task_t* task);

static int failed(const char* what) {
    fprintf(stderr, "checksum: %s: %s\n", what, threadpool_last_error());
    return 2;
}

/* Prints one result; the number of a task says which file it was. */
static int print(const result_t* result, const uint64_t* tasks, char** files, int count) {
    int at = 0;
    while (at < count && tasks[at] != result->task_id) at++;
    const char* name = at < count ? files[at] : "?";
    if (result->status == ERR_SUCCESS) {
        printf("%s %s\n", (const char*)result->data, name);
        return 0;
    }
    fprintf(stderr, "checksum: %s: %s\n", name, result->error_msg);
    return 1;
}

int main(int argc, char** argv) {
    const char* daemon = argc > 2 && strcmp(argv[1], "-a") == 0 ? argv[2] : NULL;
    char** files = argv + (daemon ? 3 : 1);
    int count = argc - (daemon ? 3 : 1);
    if (count < 1) {
        fprintf(stderr, "usage: checksum [-a DAEMON] FILE...\n");
        return 2;
    }
    threadpool_register_handler(NULL, "checksum", handler_checksum, 0);
    threadpool_t* pool = daemon ? threadpool_attach(daemon) : threadpool_create(NULL);
    if (pool == NULL) return failed("no pool");

    uint64_t* tasks = calloc((size_t)count, sizeof *tasks);
    int submitted = 0, done = 0, status = 0;
    while (done < count && tasks != NULL) {
        if (submitted < count) {
            char path[8192], request[9000];
            if (!json_quoted(files[submitted], path, sizeof path)) return failed(files[submitted]);
            snprintf(request, sizeof request, "{\"handler\": \"checksum\", \"args\": {\"path\": %s}}", path);
            tasks[submitted] = threadpool_submit(pool, request);
            if (tasks[submitted] != 0) {
                submitted++;
                continue;
            }
            /* A full queue is no error: some results have to be taken first. */
            if (threadpool_last_error_code() != ERR_QUEUE_FULL) return failed(files[submitted]);
        }
        result_t* result = threadpool_next_result(pool, 60000);
        if (result == NULL) return failed("no result for a minute");
        status |= print(result, tasks, files, submitted);
        threadpool_result_free(result);
        done++;
    }
    free(tasks);
    threadpool_shutdown(pool);
    return status;
}
