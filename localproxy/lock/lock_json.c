/* SPDX-License-Identifier: Apache-2.0 */
/* The lock's name in JSON objects and patches, and in YAML. */
#include "lock/lock_body.h"

#include <errno.h>

#include "base/splice.h"
#include "yaml/yaml.h"
#include "json/scanner.h"

struct editor {
    const struct lock_rule *rule;
    const struct lock_path *path;
    struct splice splice;
    enum lock_found found;
    struct err *e;
};

static void note_found(struct editor *ed, enum lock_found found)
{
    ed->found = found > ed->found ? found : ed->found;
}

static void edit_name(struct editor *ed, struct slice value)
{
    if (json_scan_equal(value, slice_str(ed->rule->name))) {
        splice_replace(&ed->splice, slice_of(value.ptr + 1, value.len - 2),
                       slice_str(ed->rule->renamed));
        note_found(ed, LOCK_RENAMED);
    } else if (json_scan_equal(value, slice_str(ed->rule->renamed))) {
        note_found(ed, LOCK_OWN);
    }
}

/* 1, 0 or an error that is told. */
static int find_member(struct editor *ed, struct slice object, const char *key, struct slice *value)
{
    int rc = json_scan_member(object, slice_str(key), value);
    if (rc < 0) {
        return err_set(ed->e, rc,
                       "duplicate key \"%s\" in the body: ambiguous which object it names", key);
    }
    return rc;
}

/* The field that has the name's field. */
static int edit_part(struct editor *ed, struct slice part)
{
    struct slice name;
    int rc = find_member(ed, part, ed->path->member, &name);
    if (rc > 0) {
        edit_name(ed, name);
    }
    return rc < 0 ? rc : 0;
}

static int edit_object(struct editor *ed, struct slice object)
{
    struct slice part;
    int rc = find_member(ed, object, ed->path->object, &part);
    return rc > 0 ? edit_part(ed, part) : rc;
}

static int edit_operation(struct editor *ed, struct slice operation)
{
    struct slice path;
    struct slice value;
    int rc = find_member(ed, operation, "path", &path);
    if (rc > 0) {
        rc = find_member(ed, operation, "value", &value);
    }
    if (rc <= 0) {
        return rc;
    }
    if (json_scan_equal(path, slice_str(ed->path->member_pointer))) {
        edit_name(ed, value);
        return 0;
    }
    if (json_scan_equal(path, slice_str(ed->path->object_pointer))) {
        return edit_part(ed, value);
    }
    return json_scan_equal(path, SLICE("")) ? edit_object(ed, value) : 0;
}

static int edit_operations(struct editor *ed, struct slice patch)
{
    struct slice inside = json_scan_inside(patch);
    struct slice key;
    struct slice operation;
    int rc = 0;
    while (rc == 0 && json_scan_next(&inside, &key, &operation)) {
        rc = edit_operation(ed, operation);
    }
    return rc;
}

static int edit_body(const struct lock_rule *rule, const struct lock_path *path, struct slice body,
                     struct buf *out, enum lock_found *found, struct err *e,
                     int (*edit)(struct editor *ed, struct slice document))
{
    struct editor ed = {.rule = rule, .path = path, .found = LOCK_OTHER, .e = e};
    struct slice document;
    int rc = json_scan_document(body, &document, e);
    if (rc != 0) {
        err_prefix(e, "the body is not JSON");
        return rc;
    }
    splice_init(&ed.splice, body, out);
    rc = edit(&ed, document);
    *found = ed.found;
    return rc == 0 && ed.found == LOCK_RENAMED ? splice_finish(&ed.splice) : rc;
}

int lock_rewrite_json(const struct lock_rule *rule, const struct lock_path *path, struct slice body,
                      struct buf *out, enum lock_found *found, struct err *e)
{
    return edit_body(rule, path, body, out, found, e, edit_object);
}

int lock_rewrite_json_patch(const struct lock_rule *rule, const struct lock_path *path,
                            struct slice body, struct buf *out, enum lock_found *found,
                            struct err *e)
{
    return edit_body(rule, path, body, out, found, e, edit_operations);
}

static int rewrite_tree(const struct lock_rule *rule, const struct lock_path *path,
                        const cJSON *tree, struct buf *out, enum lock_found *found)
{
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(tree, path->object);
    cJSON *name = cJSON_GetObjectItemCaseSensitive(part, path->member);
    *found = lock_compare(rule, slice_str(cJSON_GetStringValue(name)));
    if (*found != LOCK_RENAMED) {
        return 0;
    }
    return cJSON_SetValuestring(name, rule->renamed) != NULL ? yaml_emit(tree, out) : -ENOMEM;
}

int lock_rewrite_yaml(const struct lock_rule *rule, const struct lock_path *path, struct slice body,
                      struct buf *out, enum lock_found *found, struct err *e)
{
    struct slice document;
    if (json_scan_document(body, &document, NULL) == 0) {
        return lock_rewrite_json(rule, path, body, out, found, e);
    }
    struct err why = ERR_INIT;
    cJSON *tree = yaml_parse(body.ptr, body.len, NULL, &why);
    if (tree == NULL) {
        return why.code == -ENOMEM ? -ENOMEM
                                   : err_set(e, -EINVAL, "the body is not YAML: %s", why.msg);
    }
    int rc = rewrite_tree(rule, path, tree, out, found);
    cJSON_Delete(tree);
    return rc;
}
