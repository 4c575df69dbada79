/* Handlers in a library of their own, as `library = "..."` of the configuration names them. They need nothing of
 * libmillpond: they answer in the fields of the task. The declaration is the header's. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct task {
    uint32_t opcode;
    void* args;
    uint32_t assigned_to;
    uint32_t flags;
    uint64_t task_id;
    void* result;
    uint32_t result_size;
} task_t;

/* Answers with what it was given. */
void handler_mirror(task_t* task) {
    const char* args = task->args;
    char* text = malloc(strlen(args) + 100);
    int size = sprintf(text, "{\"opcode\": %u,\n\"worker\": %s, \"args\": %s}", task->opcode,
                       task->assigned_to > 0 ? "true" : "false", args);
    task->result = text;
    task->result_size = (uint32_t)size;
}

/* Fails, with what it leaves as its words. */
void handler_fail(task_t* task) {
    task->result = strdup("the disk is full");
    task->result_size = (uint32_t)strlen(task->result);
    task->flags |= 2;
}

/* Answers with what is no JSON. */
void handler_babble(task_t* task) {
    task->result = strdup("{\"open\": ");
    task->result_size = (uint32_t)strlen(task->result);
}

/* Answers nothing at all. */
void silent(task_t* task) {
    (void)task;
}
