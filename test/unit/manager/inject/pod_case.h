/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod_case.h - a pod in a line of YAML, and what it is after it was injected; for tests, include it
 * once, behind cmocka.
 */
#ifndef TEST_UNIT_MANAGER_INJECT_POD_CASE_H
#define TEST_UNIT_MANAGER_INJECT_POD_CASE_H

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/inject.h"
#include "patch_apply.h"
#include "yaml/yaml.h"
#include "json/json.h"

/* A container for pod_of. */
#define OPERATOR "{name: op, command: [/op], args: [-v]}"

static struct inject_settings settings_of(bool native)
{
    struct inject_settings s = inject_defaults;
    s.image = "registry.example.com/cmesh/proxy:1.0";
    s.native = native;
    return s;
}

static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *tree = yaml_parse(text, strlen(text), NULL, &e);
    if (tree == NULL) {
        fail_msg("the test's own YAML: %s: %s", e.msg, text);
    }
    return tree;
}

/* "spec.containers.op.args.0": members, items by index, and items by name. */
static const cJSON *at(const cJSON *tree, const char *path)
{
    while (*path != '\0' && tree != NULL) {
        char part[128];
        size_t len = strcspn(path, ".");
        (void)snprintf(part, sizeof part, "%.*s", (int)len, path);
        path += len + (path[len] == '.' ? 1 : 0);
        if (cJSON_IsArray(tree) && isdigit((unsigned char)part[0])) {
            tree = cJSON_GetArrayItem(tree, atoi(part));
        } else if (cJSON_IsArray(tree)) {
            const cJSON *item = tree->child;
            while (item != NULL &&
                   strcmp(cJSON_GetObjectItem(item, "name")->valuestring, part) != 0) {
                item = item->next;
            }
            tree = item;
        } else {
            tree = cJSON_GetObjectItemCaseSensitive(tree, part);
        }
    }
    return tree;
}

static char *print(const cJSON *tree)
{
    struct buf out = BUF_INIT(1 << 20);
    assert_int_equal(json_indented(tree, &out), 0);
    assert_int_equal(buf_append_char(&out, '\n'), 0);
    char *text = buf_take_str(&out);
    assert_non_null(text);
    return text;
}

/* "path=value", "path" that must be there, "!path" that must not. */
static inline void expect(const cJSON *pod, const char *want)
{
    char path[256];
    const char *value = strchr(want, '=');
    size_t len = value == NULL ? strlen(want) : (size_t)(value - want);
    bool absent = want[0] == '!';
    (void)snprintf(path, sizeof path, "%.*s", (int)len - absent, want + absent);
    const cJSON *item = at(pod, path);
    char found[256] = "(nothing)";
    if (item != NULL && cJSON_IsNumber(item)) {
        (void)snprintf(found, sizeof found, "%g", item->valuedouble);
    } else if (item != NULL) {
        (void)snprintf(found, sizeof found, "%s",
                       cJSON_IsString(item)  ? item->valuestring
                       : cJSON_IsTrue(item)  ? "true"
                       : cJSON_IsFalse(item) ? "false"
                                             : "(something)");
    }
    bool right = absent ? item == NULL : item != NULL;
    if (!right || (value != NULL && strcmp(found, value + 1) != 0)) {
        char *text = print(pod);
        fail_msg("wanted %s, found %s in\n%s", want, found, text);
    }
}

/* The injected pod, which the caller frees; NULL: it needed nothing. Must not fail. */
static cJSON *inject(const struct inject_settings *s, const cJSON *pod, struct warnings *notes)
{
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    if (inject_pod(s, pod, "operator-demo", "sharding-demo", notes, &patch, &e) != 0) {
        fail_msg("refused: %s", e.msg);
    }
    if (patch == NULL) {
        return NULL;
    }
    cJSON *made = patch_apply(pod, patch);
    if (made == NULL) {
        char *text = print(patch);
        fail_msg("does not fit:\n%s", text);
    }
    cJSON_Delete(patch);
    return made;
}

/* Annotations and labels have the prefix `m.io`. */
static cJSON *pod_of(const char *annotations, const char *labels, const char *spec)
{
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "metadata: {name: p, annotations: {%s}, labels: {m.io/enable-proxy: 'true', "
                   "%s}}\nspec: {%s}\n",
                   annotations, labels, spec);
    return parse(text);
}

/* Among the warnings is one with these words. Frees the pod. */
static inline void expect_note(const struct inject_settings *s, cJSON *pod, const char *words)
{
    struct warnings notes = WARNINGS_INIT;
    bool found = false;
    cJSON_Delete(inject(s, pod, &notes));
    for (size_t i = 0; i < notes.count; i++) {
        found = found || strstr(notes.items[i], words) != NULL;
    }
    if (!found) {
        fail_msg("\"%s\" is not among %zu notes: %s", words, notes.count,
                 notes.count > 0 ? notes.items[0] : "");
    }
    warnings_deinit(&notes);
    cJSON_Delete(pod);
}

/* With a message that begins so. Frees the pod. */
static inline void expect_refused(const struct inject_settings *s, cJSON *pod, const char *words)
{
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    int rc = inject_pod(s, pod, "ns", "sharding-demo", NULL, &patch, &e);
    if (rc != -EINVAL || strncmp(e.msg, words, strlen(words)) != 0) {
        fail_msg("wanted \"%s\", got %d \"%s\"", words, rc, e.msg);
    }
    assert_null(patch);
    cJSON_Delete(pod);
}

#endif
