/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_chain.h"

#include <string.h>

#include "base/xalloc.h"
#include "inject/inject_access.h"
#include "inject/inject_proxies.h"
#include "kube/access/proxy.h"
#include "object/json_patch.h"
#include "object/names.h"
#include "json/field.h"

struct search {
    struct inject_chain *chain;
    const struct inject_options *options;
    const char *ours;
    const cJSON *container; /* that is looked at */
    const cJSON *first;     /* that has chain->via */
    struct err *e;
};

static int refuse(const struct search *s, const char *name, const char *why)
{
    return inject_options_invalid(s->options, SIDECAR_EGRESS, s->e,
                                  "\"chain\": spec.containers[%.63s].env[%s]: %.200s",
                                  field_text(s->container, "name"), name, why);
}

/* ---- what localproxy can be told ---- */

/* Of variables only those of the API server's Service are in all containers. */
static bool refers_to_others(const char *text)
{
    static const char known[] = "$(KUBERNETES_SERVICE_";
    for (; (text = strstr(text, "$(")) != NULL; text += 2) {
        const char *rest = text + sizeof known - 1;
        if (strncmp(text, known, sizeof known - 1) != 0 ||
            (strncmp(rest, "HOST)", 5) != 0 && strncmp(rest, "PORT)", 5) != 0)) {
            return true;
        }
    }
    return false;
}

static int check_text(const struct search *s, const cJSON *variable)
{
    const char *name = field_text(variable, "name");
    if (!cJSON_IsString(field_get(variable, "value"))) {
        return refuse(s, name, "must be a text");
    }
    return refers_to_others(field_text(variable, "value"))
               ? refuse(s, name, "refers to variables that localproxy does not have")
               : 0;
}

/* "http://host:port" for `out`, which is to be freed. */
static int read_proxy(const struct search *s, const cJSON *variable, struct kube_proxy *out)
{
    struct err inner = ERR_INIT;
    int rc = xrc(kube_proxy_parse(field_text(variable, "value"), out, &inner));
    return rc == 0 ? 0 : refuse(s, field_text(variable, "name"), inner.msg);
}

static int check_proxy(const struct search *s, const cJSON *variable)
{
    struct kube_proxy proxy;
    if (field_get(variable, "valueFrom") != NULL) {
        return 0;
    }
    int rc = check_text(s, variable);
    rc = rc == 0 ? read_proxy(s, variable, &proxy) : rc;
    if (rc == 0) {
        kube_proxy_deinit(&proxy);
    }
    return rc;
}

/* ---- one for all ---- */

/* Both may be written in several ways, and were checked. */
static bool name_one(const struct search *s, const cJSON *a, const cJSON *b)
{
    struct kube_proxy x;
    struct kube_proxy y;
    if (read_proxy(s, a, &x) != 0) {
        return false;
    }
    bool one = read_proxy(s, b, &y) == 0;
    if (one) {
        one = strcmp(x.url, y.url) == 0;
        kube_proxy_deinit(&y);
    }
    kube_proxy_deinit(&x);
    return one;
}

static bool are_equal(const cJSON *a, const cJSON *b)
{
    const cJSON *from = field_get(a, "valueFrom");
    const cJSON *other = field_get(b, "valueFrom");
    if (from != NULL && other != NULL) {
        return json_patch_equal(from, other);
    }
    return from == other && strcmp(field_text(a, "value"), field_text(b, "value")) == 0;
}

static int take_proxy(struct search *s, const cJSON *variable)
{
    struct inject_chain *c = s->chain;
    int rc = check_proxy(s, variable);
    if (rc != 0) {
        return rc;
    }
    if (c->via == NULL) {
        c->via = variable;
        return 0;
    }
    bool same = are_equal(c->via, variable);
    if (!same && field_get(c->via, "valueFrom") == NULL &&
        field_get(variable, "valueFrom") == NULL) {
        same = name_one(s, c->via, variable);
    }
    return same ? 0
                : refuse(s, field_text(variable, "name"),
                         "is another proxy than a variable before it names, and "
                         "localproxy can use one only");
}

static int take_proxies(struct search *s, const struct inject_proxies *p)
{
    for (int kind = 0; kind < PROXIES_EXCEPT; kind++) {
        for (int i = 0; i < PROXIES_SPELLINGS; i++) {
            const cJSON *variable = p->variables[kind][i];
            if (inject_proxies_says(variable) && !inject_proxies_is_ours(variable, s->ours) &&
                take_proxy(s, variable) != 0) {
                return s->e->code;
            }
        }
    }
    return 0;
}

/* ---- what is excepted ---- */

static int check_except(const struct search *s, const cJSON *variable)
{
    return field_get(variable, "valueFrom") != NULL ? 0 : check_text(s, variable);
}

static int take_except(struct search *s, const struct inject_proxies *p)
{
    const cJSON *except = NULL;
    if (inject_proxies_may_be_told(s->container) && !inject_proxies_has(p, PROXIES_EXCEPT)) {
        return refuse(s, "NO_PROXY", "may come by envFrom, which nobody sees: set it");
    }
    for (int i = 0; i < PROXIES_SPELLINGS; i++) {
        const cJSON *variable = p->variables[PROXIES_EXCEPT][i];
        if (!inject_proxies_says(variable)) {
            continue;
        }
        if (check_except(s, variable) != 0) {
            return s->e->code;
        }
        if (except != NULL && !are_equal(except, variable)) {
            return refuse(s, field_text(variable, "name"), "is another one than NO_PROXY");
        }
        except = variable;
    }
    bool same = s->first == NULL || (except == NULL) == (s->chain->except == NULL);
    if (same && s->first != NULL && except != NULL) {
        same = are_equal(except, s->chain->except);
    }
    if (!same) {
        return refuse(s, "NO_PROXY", "differs from that of another container with a proxy");
    }
    s->chain->except = except;
    s->first = s->container;
    return 0;
}

int inject_chain_find(struct inject_chain *c, const struct inject_options *o, const cJSON *spec,
                      const char *ours, struct err *e)
{
    struct search s = {.chain = c, .options = o, .ours = ours, .e = e};
    *c = (struct inject_chain){.via = NULL};
    cJSON_ArrayForEach(s.container, field_get(spec, "containers"))
    {
        struct inject_proxies p;
        if (!inject_access_concerns(o, s.container)) {
            continue;
        }
        inject_proxies_find(&p, s.container);
        if (inject_proxies_whose(&p, s.container, ours) != PROXIES_OTHER) {
            continue;
        }
        if (take_proxies(&s, &p) != 0 || take_except(&s, &p) != 0) {
            return e->code;
        }
    }
    return 0;
}
