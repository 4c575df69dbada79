/* The handler: {"path": "/etc/hosts"} is answered with {"bytes": 174, "crc32": "8d1e1c1f"}.
 *
 * The function is found by its name. It works in a program that is linked with -rdynamic and whose configuration says
 * 1=handler_checksum, and as a library that `millpond serve` loads:
 *
 *     [handler.checksum]
 *     library = "/where/it/is/libchecksum.so"
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <threadpool.h>

#include "json_text.h"

static uint32_t crc32(uint32_t crc, const unsigned char* bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return crc;
}

void handler_checksum(task_t* task) {
    char path[4096], text[128];
    unsigned char buffer[65536];
    if (!json_string_field(task->args, "path", path, sizeof path)) {
        threadpool_set_error(task, ERR_BAD_ARGUMENTS, "args.path: expected a short string");
        return;
    }
    FILE* file = fopen(path, "rb");
    if (file == NULL) {
        threadpool_set_error(task, ERR_HANDLER_ERROR, strerror(errno));
        return;
    }
    uint32_t crc = 0xFFFFFFFFu;
    unsigned long long bytes = 0;
    size_t count;
    /* A task that nobody wants any more, because it was cancelled or its time is over, stops early. */
    while ((count = fread(buffer, 1, sizeof buffer, file)) > 0 && !threadpool_is_cancelled(task)) {
        crc = crc32(crc, buffer, count);
        bytes += count;
    }
    int failed = ferror(file);
    fclose(file);
    if (failed) {
        threadpool_set_error(task, ERR_HANDLER_ERROR, "it cannot be read to its end");
        return;
    }
    int size = snprintf(text, sizeof text, "{\"bytes\": %llu, \"crc32\": \"%08x\"}", bytes, (unsigned)~crc);
    threadpool_set_result(task, text, (uint32_t)size);
}
