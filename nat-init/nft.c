/* SPDX-License-Identifier: Apache-2.0 */
#include "nft.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/slice.h"
#include "net/loop.h"
#include "net/process.h"

enum { TIMEOUT_MS = 30 * 1000, OUTPUT_MAX = 4096 };

/* What nft says when the system refused, among other words. */
static const struct {
    const char *words;
    int code;
    const char *hint;
} refusals[] = {
    {"Operation not permitted", -EPERM,
     "this needs root with the capability NET_ADMIN, and a container runtime that grants it"},
    {"No such file or directory", -EOPNOTSUPP,
     "the kernel has no nat by nftables: its modules nf_tables, nft_chain_nat and nft_redir"},
    {"Operation not supported", -EOPNOTSUPP,
     "the kernel has no nat by nftables: its modules nf_tables, nft_chain_nat and nft_redir"},
    {"Protocol not supported", -EOPNOTSUPP, "the kernel has no nftables: its module nf_tables"},
    {"not supported by protocol", -EOPNOTSUPP,
     "the kernel has no nftables for this family of addresses"},
};

struct run {
    struct net_loop *loop;
    struct err *e;
    int rc;
};

static bool holds(struct slice text, const char *words)
{
    return memmem(text.ptr, text.len, words, strlen(words)) != NULL;
}

static int explain(struct slice said, struct err *e)
{
    const char *end = said.len == 0 ? NULL : memchr(said.ptr, '\n', said.len);
    int first = (int)(end == NULL ? said.len : (size_t)(end - said.ptr));
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        if (holds(said, refusals[i].words)) {
            return err_set(e, refusals[i].code, "nft: %.*s (%s)", first, said.ptr,
                           refusals[i].hint);
        }
    }
    return err_set(e, -EINVAL, "nft: %.*s", first, first == 0 ? "" : said.ptr);
}

static void on_done(void *data, const struct process_result *r)
{
    struct run *run = data;
    if (r->code != 0) {
        run->rc = err_set(run->e, r->code, "nft: %s", err_text(r->code));
    } else if (r->signal != 0) {
        run->rc = err_set(run->e, -EINTR, "nft was ended by signal %d", r->signal);
    } else {
        run->rc = r->exit_status == 0 ? 0 : explain(r->err, run->e);
    }
    net_loop_stop(run->loop);
}

int nft_apply(const char *text, struct err *e)
{
    char *const argv[] = {"nft", (char *)text, NULL};
    const struct process_options o = {
        .argv = argv, .timeout_ms = TIMEOUT_MS, .output_max = OUTPUT_MAX};
    struct run run = {.loop = net_loop_new(e), .e = e};
    struct process *process = NULL;
    if (run.loop == NULL) {
        return e->code;
    }
    run.rc = process_run(&run.loop->uv, &o, on_done, &run, &process, e);
    if (run.rc == 0) {
        net_loop_run(run.loop);
    } else if (run.rc == -ENOENT) {
        (void)err_set(e, run.rc, "nft is not in PATH: it comes with nftables, often in /usr/sbin");
    }
    int rc = net_loop_free(run.loop);
    return run.rc != 0 || rc == 0 ? run.rc : err_set(e, rc, "nft: %s", err_text(rc));
}
