/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_egress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/slice.h"
#include "base/xalloc.h"
#include "inject/inject_access.h"
#include "inject/inject_chain.h"
#include "inject/inject_names.h"
#include "inject/inject_proxies.h"
#include "inject/inject_variables.h"
#include "kube/service_names.h"
#include "object/names.h"
#include "json/field.h"

#define FLAG "--egress="
#define DEFAULT_ADDRESS "127.0.0.1:15002"

enum { URL_SIZE = 128, EXCEPT_ROOM = 4096 };

/* ---- whether ---- */

/* By the last --proxy-arg=--egress; NULL: there is none, or it is empty. */
static const char *given_address(const struct inject_settings *s)
{
    const char *found = NULL;
    size_t len = sizeof FLAG - 1;
    for (size_t i = 0; s->proxy_args != NULL && s->proxy_args[i] != NULL; i++) {
        found = strncmp(s->proxy_args[i], FLAG, len) == 0 ? s->proxy_args[i] + len : found;
    }
    return found != NULL && found[0] != '\0' ? found : NULL;
}

static bool asks(const cJSON *list, const char *key)
{
    static const char *const names[] = {"ENABLE_REST_BREAKER", "ENABLE_REST_FAULT_INJECTION"};
    const cJSON *variable;
    cJSON_ArrayForEach(variable, list)
    {
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            if (strcmp(field_text(variable, key), names[i]) == 0 &&
                strcmp(field_text(variable, "value"), "true") == 0) {
                return true;
            }
        }
    }
    return false;
}

/* By one of the variables in the operator's containers, or that they will have by env-inject. */
static bool is_asked_for(const struct inject_options *o, const cJSON *spec)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(spec, "containers"))
    {
        if (inject_access_concerns(o, item) && asks(field_get(item, "env"), "name")) {
            return true;
        }
    }
    cJSON_ArrayForEach(item, o->env_inject)
    {
        if (inject_access_concerns(o, item) && asks(field_get(item, "env"), "key")) {
            return true;
        }
    }
    return false;
}

static bool is_of_the_host(const cJSON *spec)
{
    return cJSON_IsTrue(field_get(spec, "hostNetwork"));
}

void inject_egress_settle(const struct inject_settings *s, struct inject_options *o,
                          const cJSON *spec)
{
    const char *address = given_address(s);
    if (o->egress == EGRESS_UNSAID) {
        bool wanted = address != NULL || is_asked_for(o, spec);
        o->egress = !wanted ? EGRESS_OFF : is_of_the_host(spec) ? EGRESS_UNSAID : EGRESS_LISTEN;
    }
    if (o->egress == EGRESS_OFF || o->egress == EGRESS_UNSAID) {
        return;
    }
    o->egress_address = address != NULL ? address : DEFAULT_ADDRESS;
    const char *port = strrchr(o->egress_address, ':');
    o->egress_port = port == NULL ? 0 : (unsigned)strtoul(port + 1, NULL, 10);
}

int inject_egress_check(const struct inject_options *o, const cJSON *spec,
                        struct warnings *warnings, struct err *e)
{
    if (o->egress == EGRESS_UNSAID) {
        warnings_add(warnings,
                     "spec.hostNetwork: localproxy does not listen for requests to other places "
                     "than the API server: its port would be the node's");
    } else if (o->egress != EGRESS_OFF && is_of_the_host(spec)) {
        return inject_options_invalid(
            o, SIDECAR_EGRESS, e,
            "\"%s\": the pod is on the host's network, where the port of localproxy would be open "
            "to the whole node",
            o->egress == EGRESS_CHAIN ? "chain" : "proxy");
    }
    return 0;
}

bool inject_egress_passes(const struct inject_options *o, const char *argument)
{
    static const char more[] = "--egress-";
    return strncmp(argument, FLAG, sizeof FLAG - 1) != 0 &&
           (o->egress_port != 0 || strncmp(argument, more, sizeof more - 1) != 0);
}

/* ---- the change ---- */

struct lead {
    struct edit *ed;
    const struct inject_settings *settings;
    const struct inject_options *options;
    char url[URL_SIZE]; /* of localproxy, as variables tell it */
    bool chained;
    struct inject_names led;   /* containers of which variables were changed; only with `chained` */
    struct inject_names other; /* those that have another proxy */
    struct inject_names without; /* none, where others have one that is chained */
    struct inject_names unknown; /* envFrom may tell of one */
    struct inject_names open;    /* NO_PROXY excepts everything */
    struct inject_names half;    /* only some kinds of requests have a proxy */
};

/* In the place where it is, for others may refer to it. */
static void set(struct edit *ed, cJSON *container, cJSON *variable, const char *name,
                const char *value)
{
    if (variable == NULL) {
        variable = edit_append_object(ed, edit_array(ed, container, "env"));
        edit_string(ed, variable, "name", name);
    }
    edit_string(ed, variable, "value", value);
    if (ed->rc == 0) {
        cJSON_DeleteItemFromObjectCaseSensitive(variable, "valueFrom");
    }
}

/* ---- NO_PROXY ---- */

/* What comes from elsewhere goes to a variable of ours, to which NO_PROXY refers then. */
static void keep_source(struct edit *ed, cJSON *container, const cJSON *variable, const char *name)
{
    cJSON *copy = cJSON_Duplicate(variable, true);
    edit_string(ed, copy, "name", name);
    edit_prepend(ed, edit_array(ed, container, "env"), copy);
}

/* Whether it is an item of the list. Some programs take blanks for separators, too, most do not: to
 * these "a 127.0.0.1" is neither. */
static bool lists(const char *list, const char *item)
{
    size_t len = strlen(item);
    while (*list != '\0') {
        list += strspn(list, ", ");
        size_t n = strcspn(list, ",");
        const char *next = list + n;
        while (n > 0 && list[n - 1] == ' ') {
            n--;
        }
        if (n == len && memcmp(list, item, len) == 0) {
            return true;
        }
        list = next;
    }
    return false;
}

static void append_missing(struct buf *out, const char *there, const char *item)
{
    if (!lists(there, item)) {
        (void)buf_printf(out, "%s%s", out->len == 0 ? "" : ",", item);
    }
}

/* The API server by all of its names, the pod itself, and what Services are called. */
static void append_ours(const struct lead *l, struct buf *out, const char *there)
{
    static const char *const fixed[] = {"localhost", "127.0.0.1", "::1",
                                        "$(KUBERNETES_SERVICE_HOST)"};
    char names[KUBE_SERVICE_NAMES][KUBE_SERVICE_NAME_SIZE];
    char domain[KUBE_SERVICE_NAME_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
        append_missing(out, there, fixed[i]);
    }
    kube_service_names(slice_str(l->settings->cluster_domain), names);
    for (size_t i = 0; i + 1 < KUBE_SERVICE_NAMES; i++) { /* the last one is in the domain */
        append_missing(out, there, names[i]);
    }
    (void)snprintf(domain, sizeof domain, ".%s", l->settings->cluster_domain);
    append_missing(out, there, ".svc");
    append_missing(out, there, domain);
}

/* What NO_PROXY becomes that was `there`, to be freed. */
static char *extended(const struct lead *l, const char *there)
{
    struct buf out = BUF_INIT(strlen(there) + EXCEPT_ROOM);
    (void)buf_append_str(&out, there);
    if (!lists(there, "*")) {
        append_ours(l, &out, there);
    }
    return xptr(buf_take_str(&out)); /* which has room for what is added */
}

/* What the variable says, by the name that its source is kept under. */
static const char *text_of(struct edit *ed, cJSON *container, const cJSON *variable, int spelling)
{
    static const struct {
        const char *name;
        const char *reference;
    } kept[PROXIES_SPELLINGS] = {{"CMESH_POD_NO_PROXY", "$(CMESH_POD_NO_PROXY)"},
                                 {"CMESH_POD_no_proxy", "$(CMESH_POD_no_proxy)"}};
    if (field_get(variable, "valueFrom") == NULL) {
        return field_text(variable, "value");
    }
    keep_source(ed, container, variable, kept[spelling].name);
    return kept[spelling].reference;
}

/* One that is not there becomes as the other one is. */
static void set_except(struct lead *l, cJSON *container, const struct inject_proxies *p)
{
    cJSON *const *variables = p->variables[PROXIES_EXCEPT];
    const char *upper = text_of(l->ed, container, variables[0], 0);
    const char *lower = text_of(l->ed, container, variables[1], 1);
    char *texts[PROXIES_SPELLINGS] = {extended(l, upper[0] != '\0' ? upper : lower),
                                      extended(l, lower[0] != '\0' ? lower : upper)};
    if (lists(upper, "*") || lists(lower, "*")) {
        inject_names_add(&l->open, field_text(container, "name"));
    }
    for (int i = 0; i < PROXIES_SPELLINGS; i++) {
        set(l->ed, container, variables[i], inject_proxies_names[PROXIES_EXCEPT][i], texts[i]);
        free(texts[i]);
    }
}

/* ---- the proxies ---- */

static void set_kind(struct lead *l, cJSON *container, const struct inject_proxies *p, int kind)
{
    for (int i = 0; i < PROXIES_SPELLINGS; i++) {
        set(l->ed, container, p->variables[kind][i], inject_proxies_names[kind][i], l->url);
    }
}

static void lead(struct lead *l, cJSON *container, const struct inject_proxies *p)
{
    set_kind(l, container, p, PROXIES_HTTP);
    set_kind(l, container, p, PROXIES_HTTPS);
    set_except(l, container, p);
}

/* Only what has a proxy gets ours: the rest of its requests goes where it went. */
static void lead_instead(struct lead *l, cJSON *container, const struct inject_proxies *p)
{
    const char *name = field_text(container, "name");
    for (int kind = 0; kind < PROXIES_EXCEPT; kind++) {
        if (inject_proxies_has(p, kind)) {
            set_kind(l, container, p, kind);
        }
    }
    set_except(l, container, p);
    inject_names_add(&l->led, name);
    if (!inject_proxies_has(p, PROXIES_HTTP) || !inject_proxies_has(p, PROXIES_HTTPS)) {
        inject_names_add(&l->half, name);
    }
}

static void lead_container(struct lead *l, cJSON *container)
{
    struct inject_proxies p;
    const char *name = field_text(container, "name");
    inject_proxies_find(&p, container);
    switch (inject_proxies_whose(&p, container, l->url)) {
    case PROXIES_OURS:
        break;
    case PROXIES_UNKNOWN:
        inject_names_add(&l->unknown, name);
        break;
    case PROXIES_OTHER:
        if (l->chained) {
            lead_instead(l, container, &p);
        } else {
            inject_names_add(&l->other, name);
        }
        break;
    case PROXIES_NONE:
        if (l->chained) {
            inject_names_add(&l->without, name);
        } else {
            lead(l, container, &p);
        }
        break;
    }
}

static void warn(const struct lead *l, const struct inject_names *names, const char *what,
                 struct warnings *warnings)
{
    if (names->len > 0) {
        warnings_add(warnings, "%s/" SIDECAR_EGRESS ": spec.containers[%s]: %s", l->options->prefix,
                     names->text, what);
    }
}

static void warn_of_all(const struct lead *l, struct warnings *warnings)
{
    warn(l, &l->led,
         "the proxy variables lead to localproxy now, which goes through the proxy that they named",
         warnings);
    warn(l, &l->half, "HTTP_PROXY or HTTPS_PROXY is not set: such requests do not pass localproxy",
         warnings);
    warn(l, &l->other,
         "has a proxy of its own, which was left as it is: its requests do not pass localproxy; "
         "\"chain\" lets localproxy go through that proxy",
         warnings);
    warn(l, &l->without,
         "has no proxy, unlike other containers, and none was set: its requests do not pass "
         "localproxy",
         warnings);
    warn(l, &l->unknown,
         "envFrom may set a proxy, so none was set: its requests do not pass localproxy unless "
         "HTTP_PROXY, HTTPS_PROXY and NO_PROXY lead there",
         warnings);
    warn(l, &l->open, "NO_PROXY has \"*\": its requests do not pass localproxy", warnings);
}

/* ---- localproxy ---- */

/* By a variable, also as its source: what it holds may be secret. */
static void add_copy(struct edit *ed, cJSON *env, const char *name, const cJSON *variable)
{
    if (variable != NULL) {
        cJSON *copy = cJSON_Duplicate(variable, true);
        edit_append(ed, env, copy);
        edit_string(ed, copy, "name", name);
    }
}

int inject_egress_lead(struct edit *ed, const struct inject_settings *s,
                       const struct inject_options *o, cJSON *spec, cJSON **env,
                       struct warnings *warnings, struct err *e)
{
    struct lead l = {.ed = ed, .settings = s, .options = o};
    struct inject_chain chain = {.via = NULL};
    *env = NULL;
    if (o->egress_port == 0) {
        return 0;
    }
    (void)snprintf(l.url, sizeof l.url, "http://%s", o->egress_address);
    if (o->egress == EGRESS_CHAIN && inject_chain_find(&chain, o, spec, l.url, e) != 0) {
        return e->code;
    }
    cJSON *list = cJSON_CreateArray();
    inject_variables_append(ed, list, "CMESH_EGRESS", o->egress_address);
    add_copy(ed, list, "CMESH_EGRESS_VIA", chain.via);
    add_copy(ed, list, "CMESH_EGRESS_NO_PROXY", chain.except);
    l.chained = chain.via != NULL;
    cJSON *container;
    cJSON_ArrayForEach(container, field_get(spec, "containers"))
    {
        if (o->egress != EGRESS_LISTEN && inject_access_concerns(o, container)) {
            lead_container(&l, container);
        }
    }
    warn_of_all(&l, warnings);
    *env = edit_result(ed, list);
    return 0;
}
