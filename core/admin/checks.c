/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/checks.h"

#include <stdio.h>

void admin_checks_init(struct admin_checks *c, struct buf *text)
{
    *c = (struct admin_checks){.ready = true, .why = "ok", .text = text};
}

static void show(struct admin_checks *c, const char *name, const char *how, const char *why)
{
    if (c->text == NULL) {
        return;
    }
    if (why == NULL) {
        buf_printf(c->text, "[+]%s ok\n", name);
    } else {
        buf_printf(c->text, "[-]%s %s: %s\n", name, how, why);
    }
}

void admin_check(struct admin_checks *c, const char *name, const char *why)
{
    show(c, name, "failed", why);
    if (why != NULL && c->ready) {
        c->ready = false;
        (void)snprintf(c->why, sizeof c->why, "%s", why);
    }
}

void admin_check_shown(struct admin_checks *c, const char *name, const char *why)
{
    show(c, name, "failed, not required", why);
}

/* A moment's refusal, as while an authenticating webhook is away, makes no program unready. */
enum { REFUSED_LONG_MS = 10000 };

static void check_credentials(struct admin_checks *c, const struct kube_client *client, bool needed)
{
    const char *name = health_cause_name(HEALTH_CREDENTIALS);
    const char *why = health_message(kube_client_health(client), HEALTH_CREDENTIALS);
    char text[ADMIN_WHY_MAX];
    if (!kube_client_ready(client)) {
        const char *error = kube_client_error(client);
        (void)snprintf(text, sizeof text, "no credentials: %s",
                       error != NULL ? error : "they are being fetched");
        admin_check(c, name, text);
    } else if (needed && kube_client_refused_ms(client) >= REFUSED_LONG_MS) {
        admin_check(c, name, why != NULL ? why : "the API server refuses them");
    } else {
        admin_check_shown(c, name, why);
    }
}

void admin_check_client(struct admin_checks *c, const struct kube_client *client, bool needed)
{
    check_credentials(c, client, needed);
    for (unsigned cause = 0; cause < HEALTH_CAUSES; cause++) {
        if (cause != HEALTH_CREDENTIALS) {
            admin_check_shown(c, health_cause_name(cause),
                              health_message(kube_client_health(client), cause));
        }
    }
}
