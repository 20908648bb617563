/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_recover.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/xalloc.h"
#include "json/field.h"

enum { TEXT_MAX = 16384 }; /* of the annotation */

#define PATH "metadata.annotations[" POLICY_RECOVER "]"

/* For "rule=token". */
struct recovery {
    char *rule;
    char *token;
};

static char *trim(char *text)
{
    while (ascii_is_space(*text)) {
        text++;
    }
    size_t len = strlen(text);
    while (len > 0 && ascii_is_space(text[len - 1])) {
        text[--len] = '\0';
    }
    return text;
}

/* What it is read with. */
struct reader {
    const struct schema_list *limitings;
    struct policy_findings *out;
    cJSON *reset;
};

/* The name may have a `=` in it, the token not. A rule that is named has its own token, whatever
 * `*` says. */
static bool split(struct reader *r, char *part, struct recovery *out)
{
    char *equals = strrchr(part, '=');
    if (equals == NULL) {
        warnings_add(&r->out->errors,
                     PATH ": Invalid value: \"%.100s\": must be RULE=TOKEN, or *=TOKEN",
                     trim(part));
        return false;
    }
    *equals = '\0';
    out->rule = trim(part);
    out->token = trim(equals + 1);
    size_t len = strlen(out->token);
    if (len == 0 || len > TRAFFIC_TOKEN_MAX) {
        warnings_add(&r->out->errors,
                     PATH ": Invalid value: \"%.100s\": the token must have 1 to %d characters",
                     out->token, TRAFFIC_TOKEN_MAX);
        return false;
    }
    return true;
}

/* `all`: to those that have none yet; else to the one of that name. Whether there is one. */
static bool apply(struct reader *r, const struct recovery *x, bool all)
{
    const struct traffic_limiting *rules = r->limitings->items;
    bool found = false;
    for (size_t i = 0; i < r->limitings->count; i++) {
        const char *name = rules[i].name;
        bool has = field_get(r->reset, name) != NULL;
        if (name[0] != '\0' && (all ? !has : strcmp(name, x->rule) == 0)) {
            cJSON_DeleteItemFromObjectCaseSensitive(r->reset, name);
            (void)xptr(cJSON_AddStringToObject(r->reset, name, x->token));
            found = true;
        }
    }
    return found;
}

static void read_parts(struct reader *r, char *text)
{
    struct recovery all = {.token = NULL};
    char *rest = text;
    for (char *part; (part = strsep(&rest, ",")) != NULL;) {
        struct recovery x;
        if (*trim(part) == '\0' || !split(r, part, &x)) {
            continue;
        }
        if (strcmp(x.rule, "*") == 0) {
            all = x;
        } else if (!apply(r, &x, false)) {
            warnings_add(&r->out->warnings, PATH ": no rule has the name \"%.100s\"", x.rule);
        }
    }
    if (all.token != NULL) {
        (void)apply(r, &all, true);
    }
}

cJSON *policy_read_recover(const cJSON *object, const struct schema_list *limitings,
                           struct policy_findings *out)
{
    const cJSON *annotations = field_map(field_get(object, "metadata"), "annotations");
    const char *text = field_text(annotations, POLICY_RECOVER);
    if (text[0] == '\0') {
        return NULL;
    }
    if (strlen(text) > TEXT_MAX) {
        warnings_add(&out->errors, PATH ": Too long: must have at most %d bytes", TEXT_MAX);
        return NULL;
    }
    struct reader r = {.limitings = limitings, .out = out, .reset = cJSON_CreateObject()};
    char *copy = xstrdup(text);
    read_parts(&r, copy);
    free(copy);
    return r.reset;
}
