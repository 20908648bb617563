/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/xalloc.h"
#include "policy/policy_reader.h"
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

/* The name may have a `=` in it, the token not. A rule that is named has its own token, whatever
 * `*` says. */
static bool split(struct policy_reader *r, char *part, struct recovery *out)
{
    char *equals = strrchr(part, '=');
    if (equals == NULL) {
        policy_error(r, PATH ": Invalid value: \"%.100s\": must be RULE=TOKEN, or *=TOKEN",
                     trim(part));
        return false;
    }
    *equals = '\0';
    out->rule = trim(part);
    out->token = trim(equals + 1);
    size_t len = strlen(out->token);
    if (len == 0 || len > TRAFFIC_TOKEN_MAX) {
        policy_error(r, PATH ": Invalid value: \"%.100s\": the token must have 1 to %d characters",
                     out->token, TRAFFIC_TOKEN_MAX);
        return false;
    }
    return true;
}

static void apply(struct policy_reader *r, const struct recovery *x, cJSON *reset)
{
    bool found = false;
    const cJSON *rule;
    cJSON_ArrayForEach(rule, r->rules)
    {
        if (strcmp(field_text(rule, "name"), x->rule) == 0) {
            edit_string(&r->edit, reset, x->rule, x->token);
            found = true;
        }
    }
    if (!found) {
        policy_warn(r, PATH ": no rule that is enforced has the name \"%.100s\"", x->rule);
    }
}

/* To all rules that have none yet. */
static void apply_to_all(struct policy_reader *r, const char *token, cJSON *reset)
{
    const cJSON *rule;
    cJSON_ArrayForEach(rule, r->rules)
    {
        const char *name = field_text(rule, "name");
        if (field_get(reset, name) == NULL) {
            edit_string(&r->edit, reset, name, token);
        }
    }
}

static void read_parts(struct policy_reader *r, char *text, cJSON *reset)
{
    const char *all = NULL;
    char *rest = text;
    for (char *part; (part = strsep(&rest, ",")) != NULL;) {
        struct recovery x;
        if (*trim(part) == '\0' || !split(r, part, &x)) {
            continue;
        }
        if (strcmp(x.rule, "*") == 0) {
            all = x.token;
        } else {
            apply(r, &x, reset);
        }
    }
    if (all != NULL) {
        apply_to_all(r, all, reset);
    }
}

void policy_read_recover(struct policy_reader *r, const cJSON *object, cJSON *entry)
{
    const cJSON *annotations = field_map(field_get(object, "metadata"), "annotations");
    const char *text = field_text(annotations, POLICY_RECOVER);
    if (text[0] == '\0') {
        return;
    }
    if (strlen(text) > TEXT_MAX) {
        policy_error(r, PATH ": Too long: must have at most %d bytes", TEXT_MAX);
        return;
    }
    char *copy = xstrdup(text);
    cJSON *reset = cJSON_CreateObject();
    read_parts(r, copy, reset);
    edit_set(&r->edit, entry, "reset", reset);
    free(copy);
}
