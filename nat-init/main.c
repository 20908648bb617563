/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - wiring: the addresses, the rules, the kernel.
 */
#include <errno.h>
#include <stdio.h>

#include "base/array.h"
#include "base/log.h"
#include "flags.h"
#include "nft.h"
#include "ruleset.h"
#include "servers.h"

enum { TEXT_MAX = 64 * 1024 };

static int print(const struct buf *text, struct err *e)
{
    if (fwrite(buf_data(text), 1, text->len, stdout) != text->len || fflush(stdout) != 0) {
        return err_set(e, -EIO, "cannot write to standard output");
    }
    return 0;
}

/* Tables of a family that the kernel does not have are not there. */
static int remove_all(struct err *e)
{
    static const char *const families[] = {"inet", "ip", "ip6"};
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        struct buf text = BUF_INIT(TEXT_MAX);
        struct err why = ERR_INIT;
        int rc = ruleset_write_removal(families[i], &text);
        rc = rc != 0 ? err_memory(&why) : nft_apply(buf_cstr(&text), &why);
        buf_reset(&text);
        if (rc != 0 && rc != -EOPNOTSUPP) {
            *e = why;
            return rc;
        }
    }
    log_info("connections to the API server are not redirected any more");
    return 0;
}

/* Where the kernel has no nat for both families in one table, each has its own. */
static int install(const struct ruleset *r, struct err *e)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    int rc = ruleset_write(r, &text) != 0 ? err_memory(e) : nft_apply(buf_cstr(&text), e);
    if (rc == -EOPNOTSUPP) {
        *e = (struct err)ERR_INIT;
        buf_clear(&text);
        rc = ruleset_write_by_family(r, &text) != 0 ? err_memory(e) : nft_apply(buf_cstr(&text), e);
    }
    buf_reset(&text);
    if (rc == 0) {
        log_info("connections to the API server are redirected to localproxy",
                 log_num("addresses", (int64_t)r->server_count),
                 log_num("toPort", (int64_t)r->to_port),
                 log_num("exceptUser", (int64_t)r->except_user));
    }
    return rc;
}

static int show(const struct ruleset *r, struct err *e)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    int rc = ruleset_write(r, &text) != 0 ? err_memory(e) : print(&text, e);
    buf_reset(&text);
    return rc;
}

static int run(const struct nat_init_flags *c, struct err *e)
{
    struct ruleset r = {.to_port = (uint16_t)c->to_port, .except_user = (uint32_t)c->except_user};
    if (c->remove) {
        return remove_all(e);
    }
    if (servers_find(&c->servers, &r, e) != 0) {
        return e->code;
    }
    return c->print ? show(&r, e) : install(&r, e);
}

int main(int argc, char **argv)
{
    struct nat_init_flags c;
    struct err e = ERR_INIT;
    nat_init_flags_parse(&c, argc, argv);
    if (run(&c, &e) != 0) {
        log_error("nothing was changed", log_str("error", e.msg));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
