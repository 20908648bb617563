/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/client_trust.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/file_state.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "crypto/tls.h"
#include "net/timer.h"

enum { CHECK_MS = 10000, FILE_MAX = 1024 * 1024 };

struct client_trust {
    struct client_trust_options o;
    struct buf ca;
    struct file_state state;
    struct net_timer *timer;
};

/* Whether something in it can be read: a client that trusts it can be made. */
static int check_authorities(const struct client_trust *t, const struct buf *text, struct err *e)
{
    const struct tls_client_options o = {
        .ca = buf_slice(text), .ca_name = t->o.path, .server_name = "check.invalid"};
    if (text->len == 0) {
        return err_set(e, -EINVAL, "%s: contains no certificate", t->o.path);
    }
    struct tls_config *config = tls_config_new_client(&o, e);
    tls_config_unref(config);
    return config == NULL ? e->code : 0;
}

static int read_authorities(struct client_trust *t, struct err *e)
{
    struct buf text = BUF_INIT(FILE_MAX);
    int rc = file_read(t->o.path, &text, e);
    if (rc == 0) {
        rc = check_authorities(t, &text, e);
    }
    if (rc != 0) {
        xerr(e);
        buf_reset(&text);
        err_prefix(e, "--webhook-client-ca");
        return rc;
    }
    buf_reset(&t->ca);
    t->ca = text;
    return 0;
}

static void on_timer(void *data)
{
    struct client_trust *t = data;
    struct err e = ERR_INIT;
    net_timer_set(t->timer, t->o.check_ms);
    if (!file_state_changed(&t->state, t->o.path)) {
        return;
    }
    if (read_authorities(t, &e) != 0) {
        log_warn("the new authorities of client certificates cannot be used; the last ones stay in "
                 "use",
                 log_str("error", e.msg));
        return;
    }
    log_info("the authorities of client certificates were read again", log_str("path", t->o.path));
    if (t->o.on_change != NULL) {
        t->o.on_change(t->o.data);
    }
}

struct client_trust *client_trust_new(struct net_loop *l, const struct client_trust_options *o,
                                      struct err *e)
{
    struct client_trust *t = xcalloc(1, sizeof *t);
    t->o = *o;
    t->o.check_ms = o->check_ms != 0 ? o->check_ms : CHECK_MS;
    buf_init(&t->ca, FILE_MAX);
    (void)file_state_changed(&t->state, t->o.path);
    if (read_authorities(t, e) != 0) {
        client_trust_free(t);
        return NULL;
    }
    t->timer = xptr(net_timer_new(l, on_timer, t));
    net_timer_set(t->timer, t->o.check_ms);
    return t;
}

struct slice client_trust_ca(const struct client_trust *t)
{
    return t == NULL ? (struct slice){0} : buf_slice(&t->ca);
}

const char *client_trust_name(const struct client_trust *t)
{
    return t == NULL ? NULL : t->o.name;
}

void client_trust_free(struct client_trust *t)
{
    if (t != NULL) {
        net_timer_free(t->timer);
        buf_reset(&t->ca);
        free(t);
    }
}
