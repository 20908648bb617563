/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/compile_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/xalloc.h"
#include "commands/route_files.h"
#include "commands/rules_diff.h"
#include "commands/rules_set.h"
#include "commands/shard_files.h"
#include "commands/traffic_diff.h"
#include "commands/traffic_files.h"
#include "object/route_names.h"
#include "yaml/yaml.h"
#include "json/json.h"

#define TEXT_MAX ((size_t)8 * RULES_TEXT_MAX)

struct run {
    const struct compile_command *command;
    struct shard_files input;
    struct traffic_files traffic;
    struct route_files routes;
    char route_label[NAMES_KEY_SIZE];
};

/* ---- writing ---- */

/* Appends one document, indented for the reader; its checksum is that of the canonical form. */
static int indent(const struct buf *canonical, struct buf *out)
{
    cJSON *tree = xptr(json_parse((const char *)buf_data(canonical), canonical->len, NULL));
    json_indented(tree, out);
    cJSON_Delete(tree);
    return xrc(buf_append_char(out, '\n'));
}

/* There is room for all rules, and for all traffic documents. */
static int to_text(const struct rules *rules, struct buf *out)
{
    struct buf canonical = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    xok(rules_to_json(rules, &canonical));
    int rc = indent(&canonical, out);
    buf_reset(&canonical);
    return rc;
}

static int traffic_to_text(const struct traffic *traffic, struct buf *out)
{
    struct buf canonical = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    xok(traffic_to_json(traffic, &canonical));
    int rc = indent(&canonical, out);
    buf_reset(&canonical);
    return rc;
}

/* `text` NULL: there must be no such file. */
static int write_named(const char *folder, const char *name, const struct buf *text, struct err *e)
{
    int rc = 0;
    char *path = xasprintf("%s/%s", folder, name);
    if (text != NULL) {
        rc = file_write_atomic(path, buf_data(text), text->len, 0644, e);
    } else if (unlink(path) != 0 && errno != ENOENT) {
        rc = err_set(e, -errno, "%s: cannot remove: %s", path, strerror(errno));
    }
    free(path);
    return rc;
}

/* Of a shard: `ending` is "" for its rules. */
static int write_file(const char *folder, const struct rules *rules, const char *ending,
                      const struct buf *text, struct err *e)
{
    char *name =
        xasprintf("%s.%s%s.json", rules_shard_namespace(rules), rules_shard_name(rules), ending);
    int rc = write_named(folder, name, text, e);
    free(name);
    return rc;
}

static int print(const struct buf *text, struct err *e)
{
    if (buf_error(text) != 0) {
        return err_set(e, xrc(buf_error(text)), "%s", err_text(buf_error(text)));
    }
    return text->len == 0 || fwrite(buf_data(text), 1, text->len, stdout) == text->len
               ? 0
               : err_set(e, -EIO, "standard output: cannot write: %s", strerror(errno));
}

static int write_result(const struct run *r, const struct rules *rules, struct err *e)
{
    const char *output = r->command->output;
    struct buf text = BUF_INIT(TEXT_MAX);
    char shard[RULES_SET_NAME];
    int rc = to_text(rules, &text);
    if (rc != 0) {
        (void)err_set(e, rc, "cannot write the rules of %s: %s", rules_set_name(rules, shard),
                      err_text(rc));
    } else if (strcmp(output, "-") != 0) {
        rc = write_file(output, rules, "", &text, e);
    } else {
        rc = print(&text, e);
    }
    buf_reset(&text);
    return rc;
}

/* Of the shard of that number; it may have none. An underscore is in no name of a shard. */
static int write_traffic(const struct run *r, size_t number, struct err *e)
{
    static const char ending[] = "_traffic";
    const char *output = r->command->output;
    bool to_files = strcmp(output, "-") != 0;
    const struct rules *rules = r->input.results.items[number];
    const struct traffic *traffic = traffic_files_document(&r->traffic, number);
    struct buf text = BUF_INIT(TEXT_MAX);
    char shard[RULES_SET_NAME];
    int rc = traffic == NULL ? 0 : traffic_to_text(traffic, &text);
    if (rc != 0) {
        (void)err_set(e, rc, "cannot write the traffic policies of %s: %s",
                      rules_set_name(rules, shard), err_text(rc));
    } else if (to_files) {
        rc = write_file(output, rules, ending, traffic == NULL ? NULL : &text, e);
    } else if (traffic != NULL) {
        rc = print(&text, e);
    }
    buf_reset(&text);
    return rc;
}

/* No shard has a name that begins so. */
#define WEBHOOKS_FILE "_webhooks.json"

static int webhooks_to_text(const cJSON *objects, struct buf *out)
{
    const cJSON *object;
    cJSON_ArrayForEach(object, objects)
    {
        (void)json_indented(object, out);
        (void)buf_append_char(out, '\n');
    }
    return xrc(buf_error(out));
}

/* Those of all operators. */
static int write_webhooks(const struct run *r, struct err *e)
{
    const char *output = r->command->output;
    struct buf text = BUF_INIT(TEXT_MAX);
    int rc = webhooks_to_text(r->routes.objects, &text);
    if (rc != 0) {
        (void)err_set(e, rc, "cannot write the webhook configurations: %s", err_text(rc));
    } else if (strcmp(output, "-") == 0) {
        rc = print(&text, e);
    } else {
        rc = write_named(output, WEBHOOKS_FILE, r->routes.objects == NULL ? NULL : &text, e);
    }
    buf_reset(&text);
    return rc;
}

static void flush(struct err *e)
{
    if (e->code == 0 && fflush(stdout) != 0) {
        (void)err_set(e, -errno, "standard output: cannot write: %s", strerror(errno));
    }
}

static void write_results(struct run *r)
{
    struct err e = ERR_INIT;
    const char *output = r->command->output;
    if (strcmp(output, "-") != 0 && mkdir(output, 0755) != 0 && errno != EEXIST) {
        (void)err_set(&e, -errno, "%s: cannot create the folder: %s", output, strerror(errno));
    }
    for (size_t i = 0; i < r->input.results.count && e.code == 0; i++) {
        (void)write_result(r, r->input.results.items[i], &e);
    }
    for (size_t i = 0; i < r->input.results.count && e.code == 0; i++) {
        (void)write_traffic(r, i, &e);
    }
    if (e.code == 0) {
        (void)write_webhooks(r, &e);
    }
    flush(&e);
    if (e.code != 0) {
        shard_files_fail(&r->input, e.msg);
    }
}

/* ---- shards of roots ---- */

static int print_child(const cJSON *config, struct err *e)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    int rc = buf_append_str(&text, "---\n");
    if (rc == 0) {
        rc = xrc(yaml_emit(config, &text));
    }
    rc = rc == 0
             ? print(&text, e)
             : err_set(e, rc, "cannot write shard %.253s: %s", shards_name(config), err_text(rc));
    buf_reset(&text);
    return rc;
}

/* Those that were made, as they can be applied. */
static void print_children(struct run *r)
{
    struct err e = ERR_INIT;
    for (size_t i = 0; i < r->input.results.count && e.code == 0; i++) {
        const cJSON *config = shard_files_config(&r->input, r->input.results.items[i]);
        const cJSON *made;
        cJSON_ArrayForEach(made, r->input.made)
        {
            if (made == config) {
                (void)print_child(config, &e);
            }
        }
    }
    flush(&e);
    if (e.code != 0) {
        shard_files_fail(&r->input, e.msg);
    }
}

/* ---- comparing ---- */

static int print_difference(const struct rules *before, const struct rules *after, bool *different,
                            struct err *e)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    bool equal = false;
    int rc = rules_diff(before, after, &text, &equal, e);
    *different = *different || !equal;
    if (rc == 0) {
        rc = print(&text, e);
    }
    buf_reset(&text);
    return rc;
}

/* A file may hold some of the shards only, and to apply it removes none. */
static void note_missing(struct run *r, const struct rules *rules)
{
    char shard[RULES_SET_NAME];
    char msg[RULES_SET_NAME + 64];
    (void)snprintf(msg, sizeof msg, "shard %s is not in the input and not compared",
                   rules_set_name(rules, shard));
    shard_files_note(&r->input, msg);
}

/* The same of a policy. */
struct comparison {
    struct run *run;
    const char *ns;
};

static bool wants_policy(void *data, enum traffic_kind kind, const char *name)
{
    struct comparison *c = data;
    char msg[RULES_SET_NAME + 64];
    if (traffic_files_has(&c->run->traffic, kind, c->ns, name)) {
        return true;
    }
    (void)snprintf(msg, sizeof msg, "%s %s/%s is not in the input and not compared",
                   policy_kind_name(kind), c->ns, name);
    shard_files_note(&c->run->input, msg);
    return false;
}

static int print_traffic_difference(struct run *r, const struct rules_set *before, size_t number,
                                    bool *different, struct err *e)
{
    const struct rules *rules = r->input.results.items[number];
    struct comparison c = {.run = r, .ns = rules_shard_namespace(rules)};
    struct buf text = BUF_INIT(TEXT_MAX);
    bool equal = traffic_diff(rules_set_traffic(before, rules),
                              traffic_files_document(&r->traffic, number), wants_policy, &c, &text);
    *different = *different || !equal;
    int rc = print(&text, e);
    buf_reset(&text);
    return rc;
}

static const char *what_of(const struct rules_set_unread *u)
{
    return u->traffic ? "traffic policies" : "rules";
}

/* NULL: it can be read, or is not there. */
static const struct rules_set_unread *find_unread(const struct rules_set *before,
                                                  const struct rules *rules)
{
    char shard[RULES_SET_NAME];
    (void)rules_set_name(rules, shard);
    for (size_t i = 0; i < before->unread_count; i++) {
        if (strcmp(before->unread[i].shard, shard) == 0) {
            return &before->unread[i];
        }
    }
    return NULL;
}

/* Of shards that are compared it is an error; of others, which anybody may have made, a note. */
static int tell_unread(struct run *r, const struct rules_set *before, struct err *e)
{
    for (size_t i = 0; i < r->input.results.count; i++) {
        const struct rules_set_unread *u = find_unread(before, r->input.results.items[i]);
        if (u != NULL) {
            return err_set(e, -EINVAL, "--diff: the %s of shard %s cannot be read: %s", what_of(u),
                           u->shard, u->why);
        }
    }
    for (size_t i = 0; i < before->unread_count; i++) {
        char msg[ERR_MSG_MAX];
        (void)snprintf(msg, sizeof msg, "the %s of shard %s cannot be read: %s",
                       what_of(&before->unread[i]), before->unread[i].shard, before->unread[i].why);
        shard_files_note(&r->input, msg);
    }
    return 0;
}

static int compare_all(struct run *r, const struct rules_set *before, bool *different,
                       struct err *e)
{
    int rc = tell_unread(r, before, e);
    for (size_t i = 0; i < r->input.results.count && rc == 0; i++) {
        const struct rules *after = r->input.results.items[i];
        rc = print_difference(rules_set_find(before, after), after, different, e);
    }
    for (size_t i = 0; i < r->input.results.count && rc == 0; i++) {
        rc = print_traffic_difference(r, before, i, different, e);
    }
    for (size_t i = 0; i < before->count && rc == 0; i++) {
        const struct rules *rules = before->items[i];
        if (shard_files_wants(&r->input, rules) &&
            rules_set_find(&r->input.results, rules) == NULL) {
            note_missing(r, rules);
        }
    }
    return rc;
}

/* Whether there is a difference. */
static bool compare(struct run *r)
{
    struct err e = ERR_INIT;
    struct rules_set before = RULES_SET_INIT;
    bool different = false;
    if (rules_set_read(&before, r->command->diff, &e) == 0) {
        rules_set_sort(&before);
        (void)compare_all(r, &before, &different, &e);
        flush(&e);
    } else {
        err_prefix(&e, "--diff");
    }
    rules_set_deinit(&before);
    if (e.code != 0) {
        shard_files_fail(&r->input, e.msg);
    }
    return different;
}

/* ---- webhooks ---- */

static void take_webhooks(struct run *r)
{
    const char *prefix = r->command->options.labels.prefix;
    r->input.files.route_label =
        names_key(prefix != NULL ? prefix : LABELS_PREFIX, ROUTE_LABEL, r->route_label);
}

/* Of all shards, where rules are written. */
static int make_webhooks(struct run *r)
{
    const struct compile_command *c = r->command;
    if (c->shard == NULL && c->diff == NULL && !c->children) {
        route_files_make(&r->routes);
    }
    return r->input.failed ? -1 : 0;
}

/* Those that no webhook leads to. */
static void note_services(struct run *r)
{
    const struct config_list *list = &r->input.files.services;
    for (size_t i = 0; i < list->count; i++) {
        if (!list->entries[i].used) {
            shard_files_note_entry(&r->input, &list->entries[i],
                                   "skipped: kind Service, not a " COMPILE_KIND);
        }
    }
}

/* ---- all ---- */

int compile_command_run(const struct compile_command *command)
{
    struct run r = {.command = command, .input = SHARD_FILES_INIT(&command->options)};
    bool different = false;
    r.input.log_format = command->log_format;
    r.input.shard = command->shard;
    r.input.namespaces = command->namespaces;
    r.input.files.take_policies = true;
    r.traffic = (struct traffic_files)TRAFFIC_FILES_INIT(&r.input);
    r.routes = (struct route_files)ROUTE_FILES_INIT(&r.input);
    take_webhooks(&r);
    int rc = shard_files_read(&r.input, command->files, command->file_count);
    if (traffic_files_read(&r.traffic) != 0) {
        rc = -1;
    }
    if (rc == 0) {
        rc = make_webhooks(&r);
    }
    note_services(&r);
    if (command->strict && shard_files_be_strict(&r.input) != 0) {
        rc = -1;
    }
    if (rc == 0 && command->diff != NULL) {
        different = compare(&r);
    } else if (rc == 0 && command->children) {
        print_children(&r);
    } else if (rc == 0) {
        write_results(&r);
    }
    bool failed = r.input.failed;
    route_files_deinit(&r.routes);
    traffic_files_deinit(&r.traffic);
    shard_files_deinit(&r.input);
    if (command->diff != NULL) {
        return failed ? COMPILE_TROUBLE : different ? COMPILE_DIFFERENT : COMPILE_SAME;
    }
    return failed ? EXIT_FAILED : EXIT_DONE;
}
