/* SPDX-License-Identifier: Apache-2.0 */
#include "readiness/operator_check.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/xalloc.h"
#include "control/status.h"
#include "inject/inject.h"
#include "kube/selector.h"
#include "object/names.h"
#include "object/route_names.h"
#include "readiness/grants.h"
#include "rules/lock_name.h"
#include "json/field.h"

#define TOKEN_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
#define OLD_LOCK "control-plane.alpha.kubernetes.io/leader"

enum { NAMES_TOLD = 8, TEXT_MAX = 4096, LOCKS_MAX = 16 };

static const struct {
    const char *name;
    const char *group; /* what stands before "namespaces/" or the plural */
    const char *plural;
    bool of_namespace;
} lists[OPERATOR_LISTS] = {
    [OPERATOR_PODS] = {"Pods", "/api/v1", "pods", true},
    [OPERATOR_LEASES] = {"Leases", "/apis/coordination.k8s.io/v1", "leases", false},
    [OPERATOR_CONFIG_MAPS] = {"ConfigMaps", "/api/v1", "configmaps", true},
    [OPERATOR_SERVICES] = {"Services", "/api/v1", "services", true},
    [OPERATOR_ROLES] = {"Roles", "/apis/rbac.authorization.k8s.io/v1", "roles", false},
    [OPERATOR_ROLE_BINDINGS] = {"RoleBindings", "/apis/rbac.authorization.k8s.io/v1",
                                "rolebindings", false},
    [OPERATOR_CLUSTER_ROLES] = {"ClusterRoles", "/apis/rbac.authorization.k8s.io/v1",
                                "clusterroles", false},
    [OPERATOR_CLUSTER_ROLE_BINDINGS] = {"ClusterRoleBindings", "/apis/rbac.authorization.k8s.io/v1",
                                        "clusterrolebindings", false},
    [OPERATOR_MUTATING_WEBHOOKS] = {"MutatingWebhookConfigurations",
                                    "/apis/admissionregistration.k8s.io/v1",
                                    "mutatingwebhookconfigurations", false},
    [OPERATOR_VALIDATING_WEBHOOKS] = {"ValidatingWebhookConfigurations",
                                      "/apis/admissionregistration.k8s.io/v1",
                                      "validatingwebhookconfigurations", false},
    [OPERATOR_DEFINITIONS] = {"CustomResourceDefinitions", "/apis/apiextensions.k8s.io/v1",
                              "customresourcedefinitions", false},
};

char *operator_list_path(enum operator_list list, const char *ns)
{
    return lists[list].of_namespace
               ? xasprintf("%s/namespaces/%s/%s", lists[list].group, ns, lists[list].plural)
               : xasprintf("%s/%s", lists[list].group, lists[list].plural);
}

const char *operator_list_name(enum operator_list list)
{
    return lists[list].name;
}

struct check {
    const struct operator_facts *facts;
    struct findings *out;
    const char *ns;
    const cJSON *template;
    struct selector *selector; /* of the workload's pods */
    size_t pod_count;          /* of them, */
    size_t injected;           /* by us so many */
    const cJSON *pod;          /* one of them; NULL: there is none */
};

static const cJSON *items(const struct check *c, enum operator_list list)
{
    return field_get(c->facts->lists[list], "items");
}

/* ---- sets of names ---- */

/* The first few of many names, for a message. */
struct name_list {
    struct buf text;
    size_t count;
};

#define NAME_LIST_INIT                                                                             \
    {                                                                                              \
        .text = BUF_INIT(TEXT_MAX)                                                                 \
    }

static void name_list_add(struct name_list *l, const char *name, const char *group)
{
    if (l->count++ < NAMES_TOLD) {
        (void)buf_printf(&l->text, "%s%s%s%s", l->count > 1 ? ", " : "", name,
                         group[0] == '\0' ? "" : ".", group);
    }
}

static const char *name_list_text(struct name_list *l)
{
    if (l->count > NAMES_TOLD) {
        (void)buf_printf(&l->text, " and %zu more", l->count - NAMES_TOLD);
    }
    return xptr(buf_cstr(&l->text));
}

/* ---- the pods that there are ---- */

static bool selects(const struct selector *s, const cJSON *labels)
{
    const cJSON *label;
    struct selector_label *all;
    size_t count = 0;
    all = xcalloc((size_t)cJSON_GetArraySize(labels) + 1, sizeof *all);
    cJSON_ArrayForEach(label, labels)
    {
        if (cJSON_IsString(label)) {
            all[count++] =
                (struct selector_label){slice_str(label->string), slice_str(label->valuestring)};
        }
    }
    bool matches = selector_matches(s, all, count);
    free(all);
    return matches;
}

static const cJSON *labels_of(const cJSON *object)
{
    return field_map(field_get(object, "metadata"), "labels");
}

static bool is_over(const cJSON *pod)
{
    const char *phase = field_text(field_get(pod, "status"), "phase");
    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

static bool is_ours(const struct selector *s, const cJSON *pod)
{
    return selects(s, labels_of(pod)) && !is_over(pod);
}

static bool has_sidecars(const struct operator_facts *facts, const cJSON *pod)
{
    char injected[NAMES_KEY_SIZE];
    (void)names_key(facts->prefix, SIDECAR_INJECTED, injected);
    return field_text(labels_of(pod), injected)[0] != '\0';
}

/* NULL: it makes no sense, and `e` says why. */
static struct selector *selector_of(const cJSON *workload, struct err *e)
{
    const cJSON *selector = field_get(field_get(workload, "spec"), "selector");
    struct selector *s = selector_from_label_selector(selector, "spec.selector", e);
    if (s == NULL) {
        xerr(e);
    }
    return s;
}

bool operator_pod_in_mesh(const struct operator_facts *facts, const cJSON *pod)
{
    struct err e = ERR_INIT;
    struct selector *s = selector_of(facts->workload, &e);
    bool in = s != NULL && is_ours(s, pod) && has_sidecars(facts, pod);
    selector_free(s);
    return in;
}

static void find_pods(struct check *c)
{
    const cJSON *pod;
    cJSON_ArrayForEach(pod, items(c, OPERATOR_PODS))
    {
        if (is_ours(c->selector, pod)) {
            c->pod = pod;
            c->pod_count++;
            c->injected += has_sidecars(c->facts, pod) ? 1 : 0;
        }
    }
}

/* ---- what could not be read ---- */

static void tell_unread(struct check *c)
{
    for (unsigned i = 0; i < OPERATOR_LISTS; i++) {
        if (c->facts->lists[i] == NULL) {
            findings_add(c->out, FINDING_UNKNOWN, lists[i].name, NULL, "cannot be read: %s",
                         c->facts->errors[i]);
        }
    }
}

/* ---- injection ---- */

static bool mounts_token(const cJSON *pod)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(field_get(pod, "spec"), "containers"))
    {
        const cJSON *mount;
        cJSON_ArrayForEach(mount, field_get(container, "volumeMounts"))
        {
            if (strcmp(field_text(mount, "mountPath"), TOKEN_DIR) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the API server mounts the service account's token into its pods: its account may say
 * otherwise, which shows in the pods that there are. */
static bool gets_token(const struct check *c)
{
    if (cJSON_IsFalse(field_get(field_get(c->template, "spec"), "automountServiceAccountToken"))) {
        return false;
    }
    return c->pod == NULL || mounts_token(c->pod);
}

static cJSON *provide_array(cJSON *object, const char *key)
{
    cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsArray(array)) {
        cJSON_DeleteItemFromObjectCaseSensitive(object, key);
        array = cJSON_AddArrayToObject(object, key);
    }
    return array;
}

static void add_token(cJSON *spec)
{
    static const char name[] = "kube-api-access";
    cJSON *volume = cJSON_CreateObject();
    cJSON *container;
    cJSON_AddStringToObject(volume, "name", name);
    cJSON_AddArrayToObject(cJSON_AddObjectToObject(volume, "projected"), "sources");
    cJSON_AddItemToArray(provide_array(spec, "volumes"), volume);
    cJSON_ArrayForEach(container, provide_array(spec, "containers"))
    {
        cJSON *mount = cJSON_CreateObject();
        cJSON_AddStringToObject(mount, "name", name);
        cJSON_AddStringToObject(mount, "mountPath", TOKEN_DIR);
        if (cJSON_IsObject(container)) {
            cJSON_AddItemToArray(provide_array(container, "volumeMounts"), mount);
        } else {
            cJSON_Delete(mount);
        }
    }
}

/* As it comes to the webhook, asking for injection. */
static cJSON *pod_of_template(const struct check *c)
{
    char key[NAMES_KEY_SIZE];
    cJSON *pod = cJSON_Duplicate(c->template, true);
    cJSON *meta = cJSON_GetObjectItemCaseSensitive(pod, "metadata");
    cJSON *labels = cJSON_GetObjectItemCaseSensitive(meta, "labels");
    (void)names_key(c->facts->prefix, SIDECAR_ENABLE, key);
    cJSON_DeleteItemFromObjectCaseSensitive(labels, key);
    cJSON_AddStringToObject(labels, key, "true");
    cJSON_AddStringToObject(meta, "name", "check");
    cJSON *spec = cJSON_GetObjectItemCaseSensitive(pod, "spec");
    if (cJSON_IsObject(spec) && gets_token(c) && !mounts_token(pod)) {
        add_token(spec);
    }
    return pod;
}

static void check_injection(struct check *c)
{
    struct warnings warnings = WARNINGS_INIT;
    struct err e = ERR_INIT;
    struct inject_settings settings = inject_defaults;
    cJSON *pod = pod_of_template(c);
    cJSON *patch = NULL;
    settings.prefix = c->facts->prefix;
    settings.image = settings.nat_image = "image";
    if (inject_pod(&settings, pod, c->ns, "check", &warnings, &patch, &e) != 0) {
        findings_add(c->out, FINDING_BREAKS, "injection", NULL, "its pods would be refused: %s",
                     e.msg);
    } else if (warnings.count == 0) {
        findings_add(c->out, FINDING_FINE, "injection", NULL, "its pods can get the sidecars");
    }
    for (size_t i = 0; i < warnings.count; i++) {
        findings_add(c->out, FINDING_LOOK, "injection", NULL, "%s", warnings.items[i]);
    }
    warnings_deinit(&warnings);
    cJSON_Delete(patch);
    cJSON_Delete(pod);
}

/* ---- leader election ---- */

/* Clients make an identity of the host's name, which is the pod's, and something behind it: most
 * "_" and a UUID, cert-manager "-external-cert-manager-controller". So the longest name counts. */
static bool is_holder(const struct check *c, const char *identity)
{
    const cJSON *pod;
    const cJSON *holder = NULL;
    size_t longest = 0;
    cJSON_ArrayForEach(pod, items(c, OPERATOR_PODS))
    {
        const char *name = field_meta(pod, "name");
        size_t len = strlen(name);
        if (len > longest && strncmp(identity, name, len) == 0 &&
            !isalnum((unsigned char)identity[len])) {
            longest = len;
            holder = pod;
        }
    }
    return holder != NULL && is_ours(c->selector, holder);
}

struct locks {
    char names[LOCKS_MAX][LOCK_NAME_SIZE];
    size_t count;
    bool elsewhere; /* one is in another namespace */
};

/* A shard's lock is called NAME---SHARD. */
static void add_lock(struct locks *l, const struct check *c, const cJSON *object)
{
    const char *name = field_meta(object, "name");
    const char *end = strstr(name, LOCK_NAME_BETWEEN);
    size_t len = end == NULL ? strlen(name) : (size_t)(end - name);
    for (size_t i = 0; i < l->count; i++) {
        if (strncmp(l->names[i], name, len) == 0 && l->names[i][len] == '\0') {
            return;
        }
    }
    if (l->count < LOCKS_MAX) {
        (void)snprintf(l->names[l->count++], LOCK_NAME_SIZE, "%.*s", (int)len, name);
        l->elsewhere = l->elsewhere || strcmp(field_meta(object, "namespace"), c->ns) != 0;
    }
}

/* Localproxy's own, by which it tells what it enforces. */
static bool is_status(const cJSON *lease)
{
    const cJSON *annotations = field_get(field_get(lease, "metadata"), "annotations");
    return field_text(annotations, CONTROL_LEASE_ANNOTATION)[0] != '\0';
}

/* Objects that only a lock's holder is written into by its clients. */
static void find_locks(const struct check *c, struct locks *l)
{
    const cJSON *object;
    cJSON_ArrayForEach(object, items(c, OPERATOR_LEASES))
    {
        if (!is_status(object) &&
            is_holder(c, field_text(field_get(object, "spec"), "holderIdentity"))) {
            add_lock(l, c, object);
        }
    }
    cJSON_ArrayForEach(object, items(c, OPERATOR_CONFIG_MAPS))
    {
        const cJSON *annotations = field_get(field_get(object, "metadata"), "annotations");
        cJSON *record = cJSON_Parse(field_text(annotations, OLD_LOCK));
        if (is_holder(c, field_text(record, "holderIdentity"))) {
            add_lock(l, c, object);
        }
        cJSON_Delete(record);
    }
}

static void check_election(struct check *c)
{
    static const char topic[] = "leader election";
    struct locks l = {.count = 0};
    struct name_list list = NAME_LIST_INIT;
    find_locks(c, &l);
    for (size_t i = 0; i < l.count; i++) {
        name_list_add(&list, l.names[i], "");
    }
    const char *names = name_list_text(&list);
    char *remedy = xasprintf("set spec.controller.leaderElectionName: %s in its ShardingConfigs: "
                             "each shard has a leader of its own then",
                             l.names[0]);
    if (l.count == 1) {
        findings_add(c->out, FINDING_FINE, topic, remedy, "one of its pods holds the lock %s%s",
                     names, l.elsewhere ? ", in another namespace" : "");
    } else if (l.count > 1) {
        findings_add(c->out, FINDING_LOOK, topic,
                     "find out which lock its controllers work by: that one is its "
                     "leaderElectionName",
                     "its pods hold several locks: %s", names);
    } else if (c->pod_count == 0) {
        findings_add(c->out, FINDING_UNKNOWN, topic, "look again while it runs",
                     "no pod of it is there, so that its lock cannot be seen");
    } else if (cJSON_IsTrue(field_get(field_get(c->template, "spec"), "hostNetwork"))) {
        findings_add(
            c->out, FINDING_UNKNOWN, topic,
            "set spec.controller.leaderElectionName in its ShardingConfigs if there is one",
            "its pods use their nodes' network, so that the holder of a lock names a node");
    } else if (c->pod_count == 1) {
        findings_add(c->out, FINDING_LOOK, topic,
                     "give each shard one pod, or turn leader election on",
                     "its one pod holds no lock: all pods of a shard would work at once");
    } else {
        findings_add(c->out, FINDING_LOOK, topic,
                     "turn leader election on, or give each shard one pod",
                     "none of its %zu pods holds a lock: all of them work at once, as all pods of "
                     "a shard will",
                     c->pod_count);
    }
    free(remedy);
    buf_reset(&list.text);
}

/* ---- what it may do ---- */

static const char *account_of(const struct check *c)
{
    const cJSON *spec = field_get(c->template, "spec");
    const char *name = field_text(spec, "serviceAccountName");
    name = name[0] == '\0' ? field_text(spec, "serviceAccount") : name;
    return name[0] == '\0' ? "default" : name;
}

static bool is_labelled(const struct check *c, const struct discovery_resource *r)
{
    for (size_t i = 0; i < c->facts->labelled_count; i++) {
        const struct sharding_resource *l = &c->facts->labelled[i];
        if (strcmp(l->group, r->group) == 0 && strcmp(l->plural, r->plural) == 0) {
            return true;
        }
    }
    return false;
}

struct rights {
    struct name_list writes;     /* of cluster-scoped resources */
    struct name_list unlabelled; /* that it lists or watches */
    struct name_list labelled;
};

#define RIGHTS_INIT                                                                                \
    {                                                                                              \
        NAME_LIST_INIT, NAME_LIST_INIT, NAME_LIST_INIT                                             \
    }

static void look_at_resource(const struct check *c, const struct discovery_resource *r,
                             unsigned verbs, struct rights *out)
{
    const unsigned reads = DISCOVERY_LIST | DISCOVERY_WATCH;
    const unsigned writes = DISCOVERY_CREATE | DISCOVERY_UPDATE | DISCOVERY_PATCH |
                            DISCOVERY_DELETE | DISCOVERY_DELETECOLLECTION;
    if (!r->preferred || (r->verbs & DISCOVERY_LIST) == 0) {
        return; /* another version of it is looked at; or it is a question, as a TokenReview */
    }
    if (!r->namespaced && (verbs & writes) != 0) {
        name_list_add(&out->writes, r->plural, r->group);
    } else if (r->namespaced && (verbs & reads) != 0 && strcmp(r->plural, "leases") != 0 &&
               strcmp(r->plural, "events") != 0) {
        name_list_add(is_labelled(c, r) ? &out->labelled : &out->unlabelled, r->plural, r->group);
    }
}

/* `write`, `list`: in words, "may write" of what it is allowed, "writes" of what it did. */
static void tell_rights(struct check *c, struct rights *r, const char *write, const char *list)
{
    if (r->writes.count > 0) {
        findings_add(c->out, FINDING_LOOK, "cluster-scoped objects",
                     "each shard sees all of them, and acts on each: let one shard do that, or see "
                     "to it that the same is done twice without harm",
                     "it %s %s", write, name_list_text(&r->writes));
    }
    if (r->unlabelled.count > 0) {
        findings_add(c->out, FINDING_LOOK, "control labels",
                     "name those that it shards by in --sharding-resources of the manager, or "
                     "every shard sees all of their objects",
                     "it %s %s, which get no control labels", list, name_list_text(&r->unlabelled));
    }
    if (r->labelled.count > 0) {
        findings_add(c->out, FINDING_FINE, "control labels",
                     "name those that it shards by in resourceSelector of its ShardingConfigs",
                     "it %s %s, which get control labels", list, name_list_text(&r->labelled));
    }
    buf_reset(&r->writes.text);
    buf_reset(&r->unlabelled.text);
    buf_reset(&r->labelled.text);
}

static void check_rights(struct check *c)
{
    struct grants g;
    struct rights r = RIGHTS_INIT;
    const struct grants_source from = {
        .roles = c->facts->lists[OPERATOR_ROLES],
        .role_bindings = c->facts->lists[OPERATOR_ROLE_BINDINGS],
        .cluster_roles = c->facts->lists[OPERATOR_CLUSTER_ROLES],
        .cluster_role_bindings = c->facts->lists[OPERATOR_CLUSTER_ROLE_BINDINGS],
    };
    grants_find(&from, c->ns, account_of(c), &g);
    for (size_t i = 0; i < c->facts->resource_count; i++) {
        const struct discovery_resource *one = &c->facts->resources[i];
        look_at_resource(c, one, grants_verbs(&g, one, c->ns) & one->verbs, &r);
    }
    if (grants_are_open(&g)) {
        findings_add(c->out, FINDING_UNKNOWN, "what it reads and writes",
                     "give it a role that names its resources, or take it for a test drive "
                     "(docs/operator-checklist.md)",
                     "the service account %s may do more than its roles name", account_of(c));
    } else if (g.count == 0 && from.cluster_role_bindings != NULL && from.role_bindings != NULL) {
        findings_add(c->out, FINDING_UNKNOWN, "what it reads and writes", NULL,
                     "no role is bound to the service account %s: it may have other credentials",
                     account_of(c));
    }
    tell_rights(c, &r, "may write", "may list");
    grants_deinit(&g);
}

/* ---- what it does ---- */

static void check_requests(struct check *c)
{
    const struct requests_seen *seen = &c->facts->seen;
    struct rights r = RIGHTS_INIT;
    for (size_t i = 0; i < c->facts->resource_count; i++) {
        const struct discovery_resource *one = &c->facts->resources[i];
        look_at_resource(c, one, requests_seen_verbs(seen, one), &r);
    }
    if (seen->pods > 0) {
        findings_add(c->out, FINDING_FINE, "test drive", NULL,
                     "%llu requests of %zu pod%s were looked at", (unsigned long long)seen->total,
                     seen->pods, seen->pods == 1 ? "" : "s");
    }
    if (seen->pods == 0 && c->facts->seen_error != NULL) {
        findings_add(c->out, FINDING_UNKNOWN, "test drive", NULL,
                     "what its pods ask for cannot be read: %s", c->facts->seen_error);
    }
    tell_rights(c, &r, "writes", "lists");
}

/* ---- webhooks ---- */

/* Whether the Service leads to its pods. */
static bool leads_here(const struct check *c, const cJSON *client)
{
    const cJSON *service = field_get(client, "service");
    const cJSON *one;
    if (strcmp(field_text(service, "namespace"), c->ns) != 0) {
        return false;
    }
    cJSON_ArrayForEach(one, items(c, OPERATOR_SERVICES))
    {
        const cJSON *wanted = field_map(field_get(one, "spec"), "selector");
        const cJSON *labels = labels_of(c->template);
        const cJSON *label;
        bool all = wanted != NULL && wanted->child != NULL &&
                   strcmp(field_meta(one, "name"), field_text(service, "name")) == 0;
        cJSON_ArrayForEach(label, wanted)
        {
            all = all && cJSON_IsString(label) &&
                  strcmp(field_text(labels, label->string), label->valuestring) == 0;
        }
        if (all) {
            return true;
        }
    }
    return false;
}

static bool is_routed(const struct check *c, const cJSON *config)
{
    char key[NAMES_KEY_SIZE];
    const char *label = names_key(c->facts->prefix, ROUTE_LABEL, key);
    return strcmp(field_text(labels_of(config), label), "true") == 0;
}

/* The entries in our own configuration are of others. */
static void find_webhooks(const struct check *c, enum operator_list list, struct name_list *reviews,
                          struct name_list *routed)
{
    const cJSON *config;
    cJSON_ArrayForEach(config, items(c, list))
    {
        struct name_list *out = is_routed(c, config) ? routed : reviews;
        const cJSON *webhook;
        cJSON_ArrayForEach(webhook, field_get(config, "webhooks"))
        {
            if (leads_here(c, field_get(webhook, "clientConfig")) &&
                strcmp(field_meta(config, "name"), ROUTE_OBJECT) != 0) {
                name_list_add(out, field_text(webhook, "name"), "");
            }
        }
    }
}

static void check_webhooks(struct check *c)
{
    struct name_list reviews = NAME_LIST_INIT;
    struct name_list routed = NAME_LIST_INIT;
    struct name_list conversions = NAME_LIST_INIT;
    const cJSON *crd;
    find_webhooks(c, OPERATOR_MUTATING_WEBHOOKS, &reviews, &routed);
    find_webhooks(c, OPERATOR_VALIDATING_WEBHOOKS, &reviews, &routed);
    cJSON_ArrayForEach(crd, items(c, OPERATOR_DEFINITIONS))
    {
        const cJSON *webhook =
            field_get(field_get(field_get(crd, "spec"), "conversion"), "webhook");
        if (leads_here(c, field_get(webhook, "clientConfig"))) {
            name_list_add(&conversions, field_meta(crd, "name"), "");
        }
    }
    if (reviews.count > 0) {
        findings_add(
            c->out, FINDING_LOOK, "webhooks",
            "what they need beside the review may be another shard's: read it from the API "
            "server, serve them from a Deployment that no ShardingConfig selects, or have reviews "
            "routed to the shard that has the object (docs/webhook-routing.md)",
            "%s: a review comes to any of its pods, and each sees its shard's objects "
            "alone",
            name_list_text(&reviews));
    }
    if (routed.count > 0) {
        findings_add(c->out, FINDING_FINE, "webhooks", NULL,
                     "%s: a review comes to the shard that has the object, once the condition "
                     "WebhookRouted of its ShardingConfig is True",
                     name_list_text(&routed));
    }
    if (conversions.count > 0) {
        findings_add(c->out, FINDING_FINE, "webhooks", NULL,
                     "it converts %s, for which a pod needs no other objects",
                     name_list_text(&conversions));
    }
    buf_reset(&reviews.text);
    buf_reset(&routed.text);
    buf_reset(&conversions.text);
}

/* ---- the whole ---- */

static char *describe(const struct check *c)
{
    return xasprintf("%s %s/%s: %zu pod%s, %zu of them in the mesh",
                     field_text(c->facts->workload, "kind"), c->ns,
                     field_meta(c->facts->workload, "name"), c->pod_count,
                     c->pod_count == 1 ? "" : "s", c->injected);
}

int operator_check(const struct operator_facts *facts, struct findings *out, char **about,
                   struct err *e)
{
    struct check c = {
        .facts = facts,
        .out = out,
        .ns = field_meta(facts->workload, "namespace"),
        .template = field_get(field_get(facts->workload, "spec"), "template"),
    };
    *out = (struct findings){.items = NULL};
    *about = NULL;
    if (labels_of(c.template) == NULL) {
        return err_set(e, -EINVAL, "spec.template.metadata.labels: Required value");
    }
    c.selector = selector_of(facts->workload, e);
    if (c.selector == NULL) {
        return e->code;
    }
    find_pods(&c);
    tell_unread(&c);
    check_injection(&c);
    check_election(&c);
    check_rights(&c);
    check_requests(&c);
    check_webhooks(&c);
    *about = describe(&c);
    selector_free(c.selector);
    return 0;
}
