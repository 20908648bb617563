/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/coverage_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "commands/coverage_report.h"
#include "commands/namespace_names.h"
#include "commands/shard_files.h"
#include "compile/coverage.h"

struct run {
    const struct coverage_command *command;
    const struct shard_files *input;
    const struct namespace_names *names;
    const struct rules **sorted; /* the shards, by operator and name */
    size_t count;
};

/* ---- operators ---- */

static int compare_operators(const struct rules *a, const struct rules *b)
{
    const char *left = rules_leader_election(a);
    const char *right = rules_leader_election(b);
    int by_namespace = strcmp(rules_shard_namespace(a), rules_shard_namespace(b));
    return by_namespace != 0 ? by_namespace
                             : strcmp(left == NULL ? "" : left, right == NULL ? "" : right);
}

static int compare_shards(const void *left, const void *right)
{
    const struct rules *const *a = left;
    const struct rules *const *b = right;
    int by_operator = compare_operators(*a, *b);
    return by_operator != 0 ? by_operator : strcmp(rules_shard_name(*a), rules_shard_name(*b));
}

static void sort_shards(struct run *r, const struct rules_set *shards)
{
    r->count = shards->count;
    r->sorted = xcalloc(shards->count + 1, sizeof *r->sorted);
    for (size_t i = 0; i < shards->count; i++) {
        r->sorted[i] = shards->items[i];
    }
    qsort(r->sorted, r->count, sizeof *r->sorted, compare_shards);
}

/* ---- looking ---- */

static bool is_left_out(const struct coverage_command *c, const char *ns)
{
    return !c->namespaces.system && (namespace_is_system(ns) || strcmp(ns, c->namespaces.own) == 0);
}

/* What at least one of them lists of it. */
static void find_shared(const struct shard_files *input, const struct rules *const *shards,
                        size_t count, struct sharing_set *out)
{
    const struct sharing_consent consent = {.known = &input->shared};
    for (size_t i = 0; i < count; i++) {
        sharing_set_add(out, shard_files_config(input, shards[i]), &consent);
    }
}

/* One operator, the shards of which are side by side. */
static void look_at(const struct run *r, const struct rules *const *shards, size_t count,
                    struct coverage_report *report)
{
    struct sharing_set shared = {.count = 0};
    struct coverage *coverage = coverage_new(shards, count, NULL);
    find_shared(r->input, shards, count, &shared);
    coverage_set_shared(coverage, &shared);
    coverage_report_begin(report, shards, count);
    bool applies = coverage_by_namespace(coverage);
    for (size_t i = 0; i < r->names->count && applies; i++) {
        const char *ns = r->names->items[i];
        size_t a;
        size_t b;
        if (!is_left_out(r->command, ns)) {
            enum coverage_verdict verdict = coverage_look(coverage, ns, &a, &b);
            coverage_report_add(report, ns, verdict, coverage);
        }
    }
    coverage_free(coverage);
    sharing_set_deinit(&shared);
    coverage_report_end(report, applies);
}

static void look_at_all(const struct run *r, struct coverage_report *report)
{
    for (size_t i = 0, end; i < r->count; i = end) {
        for (end = i + 1; end < r->count && compare_operators(r->sorted[i], r->sorted[end]) == 0;) {
            end++;
        }
        look_at(r, r->sorted + i, end - i, report);
    }
}

/* ---- all ---- */

static int print(const struct coverage_report *report, bool json, struct err *e)
{
    struct buf text = BUF_INIT((size_t)256 * 1024 * 1024);
    coverage_report_write(report, json, &text);
    int rc = xrc(buf_error(&text));
    if (rc != 0) {
        (void)err_set(e, rc, "cannot write: %s", err_text(rc));
    } else if (fwrite(buf_data(&text), 1, text.len, stdout) != text.len || fflush(stdout) != 0) {
        (void)err_set(e, -EIO, "standard output: cannot write: %s", strerror(errno));
    }
    buf_reset(&text);
    return e->code;
}

/* *complete: each namespace is in one shard. */
static int run_with(struct run *r, const struct rules_set *shards, bool *complete, struct err *e)
{
    struct coverage_report report = COVERAGE_REPORT_INIT;
    sort_shards(r, shards);
    look_at_all(r, &report);
    int rc = print(&report, r->command->json, e);
    *complete = coverage_report_complete(&report);
    coverage_report_deinit(&report);
    return rc;
}

int coverage_command_run(const struct coverage_command *command)
{
    struct shard_files input = SHARD_FILES_INIT(&command->options);
    struct run r = {.command = command, .input = &input, .names = &input.names};
    struct err e = ERR_INIT;
    bool complete = false;
    input.log_format = command->log_format;
    input.namespaces = command->namespaces;
    int rc = shard_files_read(&input, command->files, command->file_count);
    if (command->strict && shard_files_be_strict(&input) != 0) {
        rc = -1;
    }
    if (rc == 0) {
        rc = run_with(&r, &input.results, &complete, &e);
        if (rc != 0) {
            shard_files_fail(&input, e.msg);
        }
    }
    free(r.sorted);
    shard_files_deinit(&input);
    return rc != 0 ? COVERAGE_TROUBLE : complete ? COVERAGE_COMPLETE : COVERAGE_INCOMPLETE;
}
