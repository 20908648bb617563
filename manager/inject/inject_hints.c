/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_hints.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/spelling.h"
#include "inject/inject_access.h"
#include "inject/inject_sidecars.h"
#include "object/names.h"
#include "policy/policy.h"
#include "json/field.h"

enum { NAMES_MAX = 8 /* that are told of one pod: to find what is meant takes time */ };

/* ---- names ---- */

/* In inject_options.c, on pods that run, and what KusionStack's mesh wants on each pod. */
static const char *const known[] = {
    SIDECAR_ENABLE,
    SIDECAR_INJECTED,
    SIDECAR_KEEP_ACCOUNT,
    SIDECAR_NAT,
    SIDECAR_BY_NAME,
    SIDECAR_EGRESS,
    SIDECAR_USER_AGENT,
    SIDECAR_RULES_LEASE,
    SIDECAR_COUNT_LOAD,
    SIDECAR_ALLOW_BYPASS,
    "disable-fake-kubeconfig-arg",
    "disable-fake-kubeconfig-env",
    "env-inject",
    "env-sync",
    "kubeconfig-volume",
    "log-path",
    "operator-containers",
    "proxy-resource",
    "service-account-path",
    LABELS_IGNORE,
    POD_GENERATION,
    POD_TRAFFIC,
    POD_LET_GO,
    POD_SHARD,
    POD_PLACE,
    "watching",
};

bool inject_hints_knows(const char *name)
{
    return ARRAY_HAS(known, name);
}

/* NULL: none is much like it. */
static const char *name_meant(const char *name)
{
    size_t third = (strlen(name) + 1) / 3;
    unsigned best = third < SPELLING_NEAR ? (unsigned)third + 1 : SPELLING_NEAR + 1;
    const char *meant = NULL;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        unsigned distance = spelling_distance(name, known[i]);
        if (distance < best) {
            best = distance;
            meant = known[i];
        }
    }
    return meant;
}

static bool is_control_label(const struct labels_keys *keys, const char *key)
{
    for (size_t i = 0; i < LABELS_COUNT; i++) {
        if (strcmp(keys->key[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static void note_name(const char *what, const char *key, const char *meant, const char *prefix,
                      struct warnings *warnings)
{
    if (meant != NULL) {
        warnings_add(warnings, "metadata.%s[%.150s]: unknown, so it has no effect; is %s/%s meant?",
                     what, key, prefix, meant);
    } else {
        warnings_add(warnings, "metadata.%s[%.150s]: unknown, so it has no effect", what, key);
    }
}

/* `what`: "labels" or "annotations". *left: how many more may be told. */
static void note_names(const char *prefix, const struct labels_keys *keys, const cJSON *metadata,
                       const char *what, bool all, unsigned *left, struct warnings *warnings)
{
    size_t len = strlen(prefix);
    const cJSON *item;
    cJSON_ArrayForEach(item, field_map(metadata, what))
    {
        const char *key = item->string;
        bool ours = strncmp(key, prefix, len) == 0 && key[len] == '/';
        if (!ours || inject_hints_knows(key + len + 1) || is_control_label(keys, key)) {
            continue;
        }
        if ((*left)-- == 0) {
            *left = 0;
            return;
        }
        const char *meant = name_meant(key + len + 1);
        if (meant != NULL || all) {
            note_name(what, key, meant, prefix, warnings);
        }
    }
}

static void note_enable(const char *prefix, const cJSON *metadata, struct warnings *warnings)
{
    char key[NAMES_KEY_SIZE];
    const char *value =
        field_text(field_get(metadata, "labels"), names_key(prefix, SIDECAR_ENABLE, key));
    if (value[0] == '\0' &&
        strcmp(field_text(field_get(metadata, "annotations"), key), "true") == 0) {
        warnings_add(warnings,
                     "metadata.annotations[%s]: has no effect, since it is a label: this pod gets "
                     "no sidecars, and its operator sees the objects of all shards",
                     key);
    }
    if (value[0] != '\0' && strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        warnings_add(warnings,
                     "metadata.labels[%s]: \"%.63s\" is not \"true\": this pod gets no sidecars, "
                     "and its operator sees the objects of all shards",
                     key, value);
    }
}

void inject_hints_names(const char *prefix, const struct labels_keys *keys, const cJSON *pod,
                        bool all, struct warnings *warnings)
{
    const cJSON *metadata = field_get(pod, "metadata");
    unsigned left = NAMES_MAX;
    note_enable(prefix, metadata, warnings);
    note_names(prefix, keys, metadata, "labels", all, &left, warnings);
    note_names(prefix, keys, metadata, "annotations", all, &left, warnings);
}

/* ---- arguments ---- */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/* What stands behind the flag, "-master" of "--master", in a text with words; NULL: it is not in
 * there. What begins with it is an argument by itself. */
static const char *find_in_words(const char *text, const char *flag)
{
    size_t len = strlen(flag);
    for (const char *at = text; (at = strstr(at, flag)) != NULL; at += len) {
        const char *begin = at > text && at[-1] == '-' ? at - 1 : at;
        if (begin > text && !is_name_char(begin[-1]) && !is_name_char(at[len])) {
            return at + len;
        }
    }
    return NULL;
}

/* What KUBECONFIG says, or the file that it names. */
static bool leads_to_localproxy(const char *value)
{
    static const char *const right[] = {"$KUBECONFIG", "${KUBECONFIG}", "$(KUBECONFIG)",
                                        INJECT_KUBECONFIG};
    value += strspn(value, "= \t\"'");
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        size_t len = strlen(right[i]);
        if (strncmp(value, right[i], len) == 0 && !is_name_char(value[len])) {
            return true;
        }
    }
    return false;
}

/* Whether one of the flags "--kubeconfig" in a text with words leads elsewhere. */
static bool has_other_file(const char *text)
{
    while ((text = find_in_words(text, "-kubeconfig")) != NULL) {
        if (!leads_to_localproxy(text)) {
            return true;
        }
    }
    return false;
}

/* Whether the variable is set to something else, as a shell and `env` do it. Empty, it leads to the
 * folder of the service account, which is ours as well. */
static bool sets_variable(const char *text)
{
    static const char name[] = "KUBECONFIG=";
    for (const char *at = text; (at = strstr(at, name)) != NULL; at += sizeof name - 1) {
        const char *value = at + sizeof name - 1;
        bool begins = at == text || (!is_name_char(at[-1]) && at[-1] != '$');
        bool empty = value[0] == '\0' || isspace((unsigned char)value[0]);
        if (begins && !empty && !leads_to_localproxy(value)) {
            return true;
        }
    }
    return false;
}

static bool is_argument(const char *text, const char *flag)
{
    size_t len = strlen(flag);
    text += strncmp(text, "--", 2) == 0 ? 1 : 0;
    return strncmp(text, flag, len) == 0 && (text[len] == '=' || text[len] == '\0');
}

/* Values are not repeated: they may be secrets. */
static void note_argument(const cJSON *container, const char *text, struct warnings *warnings)
{
    const char *name = field_text(container, "name");
    bool variable = sets_variable(text);
    if (variable || has_other_file(text)) {
        warnings_add(warnings,
                     "spec.containers[%.63s]: %s within an argument stays as it is, and leads the "
                     "operator past localproxy: %s",
                     name, variable ? "KUBECONFIG" : "--kubeconfig",
                     variable ? "leave it out" : "give it $KUBECONFIG");
    }
    if (is_argument(text, "-master") || find_in_words(text, "-master") != NULL) {
        warnings_add(warnings,
                     "spec.containers[%.63s]: --master leads the operator past localproxy: "
                     "leave it out",
                     name);
    }
}

/* With nat the kernel redirects what goes past localproxy. */
static void note_arguments(const struct inject_options *o, const cJSON *container,
                           struct warnings *warnings)
{
    static const char *const lists[] = {"command", "args"};
    for (size_t i = 0; i < ARRAY_LEN(lists) && !o->nat; i++) {
        const cJSON *item;
        cJSON_ArrayForEach(item, field_get(container, lists[i]))
        {
            const char *text = cJSON_GetStringValue(item);
            note_argument(container, text == NULL ? "" : text, warnings);
        }
    }
}

/* ---- variables ---- */

static void note_variable(const cJSON *container, const cJSON *variable, struct warnings *warnings)
{
    if (strcmp(field_text(variable, "name"), "DISABLE_CIRCUIT_BREAKER") == 0 &&
        strcmp(field_text(variable, "value"), "true") == 0) {
        warnings_add(warnings,
                     "spec.containers[%.63s].env[DISABLE_CIRCUIT_BREAKER]: has no effect: label "
                     "the CircuitBreaker " POLICY_DISABLE_BREAKER
                     ", or let its selector leave this pod out",
                     field_text(container, "name"));
    }
}

void inject_hints_containers(const struct inject_options *o, const cJSON *spec,
                             struct warnings *warnings)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(spec, "containers"))
    {
        const cJSON *item;
        if (!inject_access_concerns(o, container)) {
            continue;
        }
        note_arguments(o, container, warnings);
        cJSON_ArrayForEach(item, field_get(container, "env"))
        {
            note_variable(container, item, warnings);
        }
    }
}
