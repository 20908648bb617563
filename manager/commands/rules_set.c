/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/rules_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/grow.h"
#include "base/xalloc.h"
#include "commands/input.h"
#include "object/names.h"
#include "yaml/yaml.h"
#include "json/field.h"
#include "json/json.h"

/* Of a ConfigMap. */
#define KEY "rules.json"
#define TRAFFIC_KEY "traffic.json"

const char *rules_set_name(const struct rules *rules, char out[RULES_SET_NAME])
{
    (void)snprintf(out, RULES_SET_NAME, "%s/%s", rules_shard_namespace(rules),
                   rules_shard_name(rules));
    return out;
}

const struct rules *rules_set_find(const struct rules_set *s, const struct rules *like)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(rules_shard_name(s->items[i]), rules_shard_name(like)) == 0 &&
            strcmp(rules_shard_namespace(s->items[i]), rules_shard_namespace(like)) == 0) {
            return s->items[i];
        }
    }
    return NULL;
}

const struct traffic *rules_set_traffic(const struct rules_set *s, const struct rules *like)
{
    for (size_t i = 0; i < s->traffic_count; i++) {
        if (strcmp(traffic_shard_name(s->traffic[i]), rules_shard_name(like)) == 0 &&
            strcmp(traffic_shard_namespace(s->traffic[i]), rules_shard_namespace(like)) == 0) {
            return s->traffic[i];
        }
    }
    return NULL;
}

bool rules_set_add(struct rules_set *s, struct rules *rules)
{
    if (rules_set_find(s, rules) != NULL) {
        rules_unref(rules);
        return false;
    }
    s->items = xptr(grow_array(s->items, s->count, &s->cap, sizeof(struct rules *)));
    s->items[s->count++] = rules;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    char left[RULES_SET_NAME];
    char right[RULES_SET_NAME];
    return strcmp(rules_set_name(*(struct rules *const *)a, left),
                  rules_set_name(*(struct rules *const *)b, right));
}

void rules_set_sort(struct rules_set *s)
{
    if (s->count > 0) {
        qsort(s->items, s->count, sizeof(struct rules *), compare_names);
    }
}

void rules_set_deinit(struct rules_set *s)
{
    for (size_t i = 0; i < s->count; i++) {
        rules_unref(s->items[i]);
    }
    for (size_t i = 0; i < s->unread_count; i++) {
        free(s->unread[i].shard);
        free(s->unread[i].why);
    }
    for (size_t i = 0; i < s->traffic_count; i++) {
        traffic_unref(s->traffic[i]);
    }
    free(s->traffic);
    free(s->unread);
    free(s->items);
    *s = (struct rules_set)RULES_SET_INIT;
}

/* ---- files ---- */

static int refuse_double(const char *name, struct err *e)
{
    return err_set(e, -EEXIST, "there is more than one document for shard %s", name);
}

static int add_text(struct rules_set *s, const char *text, size_t len, struct err *e)
{
    char name[RULES_SET_NAME];
    struct rules *rules = rules_parse_plain(text, len, e);
    if (rules == NULL) {
        return xrc(e->code);
    }
    (void)rules_set_name(rules, name);
    return rules_set_add(s, rules) ? 0 : refuse_double(name, e);
}

static bool has_traffic(const struct rules_set *s, const struct traffic *like)
{
    for (size_t i = 0; i < s->traffic_count; i++) {
        if (strcmp(traffic_shard_name(s->traffic[i]), traffic_shard_name(like)) == 0 &&
            strcmp(traffic_shard_namespace(s->traffic[i]), traffic_shard_namespace(like)) == 0) {
            return true;
        }
    }
    return false;
}

static int add_traffic(struct rules_set *s, const char *text, size_t len, struct err *e)
{
    struct traffic *t = traffic_parse(text, len, e);
    if (t == NULL) {
        return xrc(e->code);
    }
    if (has_traffic(s, t)) {
        char name[RULES_SET_NAME];
        (void)snprintf(name, sizeof name, "%s/%s", traffic_shard_namespace(t),
                       traffic_shard_name(t));
        traffic_unref(t);
        return refuse_double(name, e);
    }
    s->traffic = xrealloc(s->traffic, (s->traffic_count + 1) * sizeof(struct traffic *));
    s->traffic[s->traffic_count++] = t;
    return 0;
}

/* Anybody may have made it: it is an error only to whoever asks for that shard. */
static void add_unread(struct rules_set *s, const char *ns, const char *shard, bool traffic,
                       const struct err *why)
{
    s->unread = xrealloc(s->unread, (s->unread_count + 1) * sizeof *s->unread);
    s->unread[s->unread_count++] = (struct rules_set_unread){
        .shard = xasprintf("%s/%s", ns, shard), .why = xstrdup(why->msg), .traffic = traffic};
}

/* One of the keys of a ConfigMap; "": it has none. */
static int add_value(struct rules_set *s, const cJSON *meta, const char *text, bool traffic,
                     struct err *e)
{
    const char *name = field_text(meta, "name");
    const char *ns = field_text(meta, "namespace");
    const char *shard = names_shard_of_map(name);
    struct err why = ERR_INIT;
    if (text[0] == '\0') {
        return 0;
    }
    int rc =
        traffic ? add_traffic(s, text, strlen(text), &why) : add_text(s, text, strlen(text), &why);
    if (rc != 0 && ns[0] != '\0' && shard != NULL) {
        add_unread(s, ns, shard, traffic, &why);
        return 0;
    }
    return rc == 0 ? 0 : err_set(e, rc, "%s: %s", name, why.msg);
}

static int add_config_map(struct rules_set *s, const cJSON *map, struct err *e)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(map, "metadata");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(map, "data");
    int rc = add_value(s, meta, field_text(data, KEY), false, e);
    return rc == 0 ? add_value(s, meta, field_text(data, TRAFFIC_KEY), true, e) : rc;
}

static int add_document(struct rules_set *s, const cJSON *document, struct err *e)
{
    const char *kind = field_text(document, "kind");
    if (strcmp(kind, "ConfigMap") == 0) {
        return add_config_map(s, document, e);
    }
    bool traffic = strcmp(kind, TRAFFIC_KIND) == 0;
    if (!traffic && strcmp(kind, RULES_KIND) != 0) {
        return 0;
    }
    struct buf text = BUF_INIT(INPUT_MAX);
    int rc = xrc(json_canonical(document, &text));
    if (rc != 0) {
        rc = err_set(e, rc, "cannot read: %s", err_text(rc));
    } else if (traffic) {
        rc = add_traffic(s, (const char *)buf_data(&text), text.len, e);
    } else {
        rc = add_text(s, (const char *)buf_data(&text), text.len, e);
    }
    buf_reset(&text);
    return rc;
}

static int add_documents(struct rules_set *s, const cJSON *documents, struct err *e)
{
    size_t before = s->count + s->traffic_count + s->unread_count;
    const cJSON *document;
    cJSON_ArrayForEach(document, documents)
    {
        const cJSON *item;
        cJSON_ArrayForEach(item, input_list_items(document, "ConfigMap"))
        {
            if (add_document(s, item, e) != 0) {
                return e->code;
            }
        }
        if (add_document(s, document, e) != 0) {
            return e->code;
        }
    }
    return s->count + s->traffic_count + s->unread_count == before
               ? err_set(e, -EINVAL, "contains no rules document")
               : 0;
}

static int read_file(struct rules_set *s, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(INPUT_MAX);
    int rc = input_read(path, &text, e);
    if (rc == 0) {
        cJSON *documents = yaml_parse_all((const char *)buf_data(&text), text.len, NULL, e);
        rc = documents == NULL ? xrc(e->code) : add_documents(s, documents, e);
        if (rc != 0) {
            err_prefix(e, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
        }
        cJSON_Delete(documents);
    }
    buf_reset(&text);
    return rc;
}

static int is_document(const struct dirent *entry)
{
    static const char *const endings[] = {".json", ".yaml", ".yml"};
    size_t len = strlen(entry->d_name);
    if (entry->d_name[0] == '_') { /* of compile, for no shard */
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        size_t n = strlen(endings[i]);
        if (len > n && strcmp(entry->d_name + len - n, endings[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

static int read_folder(struct rules_set *s, const char *path, struct err *e)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_document, alphasort);
    int rc =
        n < 0 ? err_set(e, -errno, "%s: cannot read the folder: %s", path, strerror(errno)) : 0;
    for (int i = 0; i < n; i++) {
        char *file = xasprintf("%s/%s", path, entries[i]->d_name);
        if (rc == 0) {
            rc = read_file(s, file, e);
        }
        free(file);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int rules_set_read(struct rules_set *s, const char *path, struct err *e)
{
    struct stat st;
    bool folder = strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return folder ? read_folder(s, path, e) : read_file(s, path, e);
}
