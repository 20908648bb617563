/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the children of a root; roots_internal.h has its phases.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "object/names.h"
#include "object/preconditions.h"
#include "root/roots_internal.h"
#include "root/validate_root.h"
#include "json/digest.h"
#include "json/edit.h"
#include "json/field.h"

enum { SHARE_SIZE = BUCKETS_TEXT_SIZE + 16 }; /* of a text */

static void go_on(struct root *t);

/* ---- begin and end ---- */

static void end_request(struct root_pass *p)
{
    cJSON_Delete(p->body);
    p->body = NULL;
    free(p->changed_by);
    p->changed_by = NULL;
}

void root_end_pass(struct root *t)
{
    struct root_pass *p = &t->pass;
    end_request(p);
    for (size_t i = 0; i < p->removal_count; i++) {
        free(p->removals[i].name);
        free(p->removals[i].uid);
        free(p->removals[i].version);
    }
    free(p->removals);
    cJSON_Delete(p->whole);
    *p = (struct root_pass){.phase = ROOT_STRAYS};
}

/* It takes some time, so a spec that was found right is not looked at again. */
static int validate(struct root *t, const struct shard_cache_config *config)
{
    const struct compile_options o = {
        .namespace = config->ns, .generation = 1, .labels = t->roots->options.labels};
    struct validate_root found;
    if (t->valid == config->digest) {
        return 0;
    }
    int rc = validate_root(t->pass.whole, &o, &found, &t->pass.invalid);
    if (rc == 0) {
        t->valid = config->digest;
        rules_unref(found.rules);
        selector_free(found.pods);
    }
    return rc;
}

/* 0; -EINVAL and so on: pass.invalid says why. */
static int read_spec(struct root *t, const struct shard_cache_config *config)
{
    struct root_pass *p = &t->pass;
    p->whole = shard_cache_whole(config);
    if (p->whole == NULL) {
        return err_set(&p->invalid, -EDQUOT,
                       "spec: Too large: there is no memory for it; see the "
                       "manager's --shards-memory");
    }
    int rc = validate(t, config);
    return rc == 0 ? root_spec_read(p->whole, &p->spec, &p->invalid) : rc;
}

/* False: namespaces and the target bring it again when they are known. */
static bool knows_enough(struct root *t, const struct shard_cache_config *config)
{
    struct root_pass *p = &t->pass;
    const struct root_auto *a = &p->spec.automatic;
    struct child_namespaces names;
    t->needs_namespaces = child_needs_namespaces(&p->spec) && !p->spec.disable;
    if (t->needs_namespaces && !roots_names(t->roots, &names)) {
        return false;
    }
    bool fixed = a->there && a->size != 0;
    const struct target_name name = {.name = p->spec.target, .deployment = p->spec.deployment};
    p->target = targets_hold(t->roots->targets, &t->target, config->ns, &name, !fixed);
    return fixed || p->target.state != TARGET_ASKED;
}

/* Those of the old prefix are strays from now on, which nobody but this manager deletes. */
static void follow_prefix(struct root *t)
{
    const char *prefix = t->pass.spec.prefix;
    if (t->prefix != NULL && strcmp(t->prefix, prefix) == 0) {
        return;
    }
    for (size_t i = 0; t->prefix != NULL && i < ROOT_CHILDREN_MAX; i++) {
        root_child_rename(&t->children[i]);
    }
    free(t->prefix);
    t->prefix = xstrdup(prefix);
}

void root_begin(struct root *t)
{
    struct root_pass *p = &t->pass;
    const struct shard_cache_config *config = root_config(t);
    p->digest = config->digest;
    if (read_spec(t, config) != 0) {
        t->needs_namespaces = false;
        p->phase = ROOT_OVER;
        root_report(t);
        return;
    }
    if (!knows_enough(t, config)) {
        reconcile_done(&t->run, WORK_DONE, 0);
        return;
    }
    follow_prefix(t);
    root_gather(t);
    root_lay_out(t);
    root_find_removals(t);
    root_balance_look(t);
    p->phase = p->spec.disable ? ROOT_OVER : ROOT_STRAYS;
    go_on(t);
}

/* ---- requests ---- */

/* About the child of that name. It is applied without force where there is none yet: what somebody
 * else made of that name meanwhile is not taken from them. */
static void send_request(struct root *t, enum object_request_verb verb, const char *name,
                         const cJSON *body, object_request_cb next)
{
    char *path = root_path(t);
    const struct object_request_options q = {
        .verb = verb,
        .path = path,
        .name = name,
        .body = body,
        .field_manager = verb == OBJECT_REQUEST_DELETE ? NULL : ROOT_FIELD_MANAGER,
        .force = verb == OBJECT_REQUEST_APPLY && t->pass.existed,
    };
    reconcile_write(&t->run, &q, NULL, next);
    free(path);
}

/* ---- what an answer says ---- */

static void count(struct root *t, enum roots_result result)
{
    t->roots->options.counts->applies[result]++;
}

/* Whether it is of no use to send the same again at once. */
static bool is_refusal(const struct api_error *e)
{
    return e->code >= 400 && e->code < 500 && e->code != 401 && e->code != 404 && e->code != 408 &&
           e->code != 409 && e->code != 429;
}

/* Whether what was sent may have been done, though the answer is an error. */
static bool may_be_done(const struct api_error *e)
{
    return e->code == 0 || e->code == 408 || e->code >= 500;
}

/* The cache is behind, or the API server is not well: the whole pass begins anew. */
static void give_up(struct root *t, const char *what, const struct api_error *e)
{
    bool behind = e->code == 409 || e->code == 404 || e->code == 422;
    count(t, behind ? ROOTS_CONFLICT : ROOTS_FAILED);
    if (!behind) {
        log_at(e->level, "cannot write a child", log_str("root", t->key), log_str("what", what),
               log_str("error", e->msg));
    }
    reconcile_done(&t->run, WORK_RETRY, e->retry_after);
}

/* It is tried again and again, and logged once for each reason. */
static void note_refusal(struct root *t, unsigned number, const char *what,
                         const struct api_error *e)
{
    struct root_pass *p = &t->pass;
    uint64_t *logged =
        number < ROOT_CHILDREN_MAX ? &t->children[number].refusal : &t->stray_refusal;
    uint64_t refusal = keyed_hash(keyed_hash(0, slice_str(what)), slice_str(e->msg));
    count(t, ROOTS_REFUSED);
    LOG_AT(*logged == refusal ? LOG_DEBUG : e->level, "a child was refused",
           log_str("root", t->key), log_str("child", what), log_str("error", e->msg));
    *logged = refusal;
    p->refused = true;
    if (p->phase != ROOT_STRAYS && p->phase != ROOT_REMOVE && p->shard.number == 0) {
        p->keeps = true;
        p->barred = true;
    }
    (void)err_set(&p->why, -EACCES, "ShardingConfig %.253s: %s", what, e->msg);
}

/* ---- Events ---- */

static struct event_object about(const struct root *t)
{
    const struct shard_cache_config *config = root_config(t);
    return config == NULL ? (struct event_object){.kind = COMPILE_KIND, .name = ""}
                          : event_object_of(config->object);
}

static void tell_put_back(struct root *t, const struct event_object *root, const char *name)
{
    const struct root_pass *p = &t->pass;
    if (p->deleted) {
        event_record(t->roots->options.events, root, EVENT_WARNING, "ChildPutBack",
                     "ShardingConfig %s was deleted by somebody: it is made again.", name);
    } else if (p->changed_by != NULL) {
        event_record(t->roots->options.events, root, EVENT_WARNING, "ChildPutBack",
                     "ShardingConfig %s was changed by %s: it is put right. Edit this object "
                     "instead.",
                     name, p->changed_by[0] == '\0' ? "somebody" : p->changed_by);
        t->children[p->shard.number].told = p->edited;
    }
}

static void print_share(unsigned number, uint32_t buckets, char out[SHARE_SIZE])
{
    char text[BUCKETS_TEXT_SIZE];
    buckets_print(buckets, text);
    (void)snprintf(out, SHARE_SIZE, "%s%s", number == 0 ? "namespaces" : "buckets ",
                   number == 0 ? "" : text);
}

/* Without takeover a canary that was taken over gets its share all the same, ready or not. */
static bool is_given_back(const struct root_pass *p, const struct root_child *before)
{
    const struct layout_shard *s = &p->shard;
    bool has = s->number == 0 ? !s->leaving && p->spec.automatic.takeover_s != 0 : s->buckets != 0;
    return before->taken_over && !s->taken_over && has;
}

static void tell_taken_over(struct root *t, const struct event_object *root, const char *name,
                            const struct root_child *before)
{
    const struct root_pass *p = &t->pass;
    char text[SHARE_SIZE];
    if (p->shard.taken_over && !before->taken_over) {
        print_share(p->shard.number, before->buckets, text);
        event_record(t->roots->options.events, root, EVENT_WARNING, "TakenOver",
                     "No pod of shard %s has been ready for %u s: its %s go to the others.", name,
                     p->spec.automatic.takeover_s, text);
        t->roots->options.counts->takeovers++;
        t->told_takeover = true;
    } else if (is_given_back(p, before)) {
        print_share(p->shard.number, p->shard.buckets, text);
        event_record(t->roots->options.events, root, EVENT_NORMAL, "GivenBack",
                     "Shard %s has been ready for %u s: it gets %s%s.", name,
                     p->spec.automatic.takeover_s, p->shard.number == 0 ? "its " : "", text);
        t->told_takeover = true;
    }
}

/* ---- applying a child ---- */

static uint64_t nonzero(uint64_t hash)
{
    return hash == 0 ? 1 : hash;
}

/* Buckets that were another shard's, of those that it gets. */
static size_t count_moved(const struct root *t)
{
    const struct root_pass *p = &t->pass;
    uint32_t others = 0;
    for (size_t i = 0; i < p->fact_count; i++) {
        others |= p->facts[i].number == p->shard.number ? 0 : p->facts[i].buckets;
    }
    const struct root_child *c = &t->children[p->shard.number];
    return (size_t)__builtin_popcount(p->shard.buckets & others & ~(c->known ? c->buckets : 0));
}

static void note_moves(struct root *t)
{
    size_t moved = count_moved(t);
    if (moved > 0) {
        t->moved += moved;
        t->moved_at = roots_now(t->roots);
        t->roots->options.counts->moved += moved;
    }
}

static void set_text(char **at, const char *text)
{
    free(*at);
    *at = xstrdup(text);
}

/* What the API server has now. */
static void remember(struct root *t, const cJSON *object)
{
    struct root_pass *p = &t->pass;
    struct root_child *c = &t->children[p->shard.number];
    c->base = p->base;
    set_text(&c->uid, field_meta(object, "uid"));
    set_text(&c->version, field_meta(object, "resourceVersion"));
    c->known = true;
    if (p->shard.number == 0) {
        cJSON_Delete(c->share);
        c->share = cJSON_Duplicate(root_child_share(p->body), true);
    }
    c->buckets = p->shard.buckets;
    c->taken_over = p->shard.taken_over;
    c->wanted = p->wish;
    uint64_t specced = json_digest(field_get(p->body, "spec"));
    uint64_t found = json_digest(field_get(object, "spec"));
    bool usual = found == specced || (c->specced == specced && c->accepted == found);
    c->specced = specced;
    c->accepted = usual ? found : 0;
    c->written_at = roots_now(t->roots);
    c->checked = 0;
    reconcile_after(&t->run, RECONCILE_BELIEF_MS + 1);
}

static void skip_shard(struct root *t)
{
    t->pass.at++;
    end_request(&t->pass);
    go_on(t);
}

static void next_shard(struct root *t)
{
    t->pass.progress = true;
    t->children[t->pass.shard.number].refusal = 0;
    skip_shard(t);
}

/* The answer to what was applied is of no use without this. A patch of another version fails by its
 * test. */
static void on_replaced(void *data, const cJSON *object, const struct api_error *error)
{
    enum { TEST_FAILED = 422 };
    struct root *t = data;
    struct root_child *c = &t->children[t->pass.shard.number];
    const char *name = field_meta(t->pass.body, "name");
    if (object != NULL) {
        count(t, ROOTS_WRITTEN);
        remember(t, object);
        c->accepted = json_digest(field_get(object, "spec"));
        next_shard(t);
        return;
    }
    root_child_forget_answer(c);
    c->wanted = 0; /* it is to be written again */
    if (is_refusal(error) && error->code != TEST_FAILED) {
        note_refusal(t, t->pass.shard.number, name, error);
        skip_shard(t);
    } else {
        give_up(t, name, error);
    }
}

/* Fields that others own are no reason to have another spec. */
static void replace_spec(struct root *t, const cJSON *object)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateArray();
    cJSON *test = edit_append_object(&ed, patch);
    edit_string(&ed, test, "op", "test");
    edit_string(&ed, test, "path", "/metadata/resourceVersion");
    edit_string(&ed, test, "value", field_meta(object, "resourceVersion"));
    cJSON *replace = edit_append_object(&ed, patch);
    edit_string(&ed, replace, "op", "replace");
    edit_string(&ed, replace, "path", "/spec");
    edit_set(&ed, replace, "value", cJSON_Duplicate(field_get(t->pass.body, "spec"), true));
    send_request(t, OBJECT_REQUEST_JSON_PATCH, field_meta(object, "name"), patch, on_replaced);
    cJSON_Delete(patch);
}

static void on_applied(void *data, const cJSON *object, const struct api_error *error)
{
    struct root *t = data;
    struct root_pass *p = &t->pass;
    struct root_child *c = &t->children[p->shard.number];
    const struct root_child before = *c;
    const char *name = field_meta(p->body, "name");
    if (object == NULL && is_refusal(error)) {
        note_refusal(t, t->pass.shard.number, name, error);
        skip_shard(t);
        return;
    }
    if (object == NULL) {
        c->wanted = may_be_done(error) ? 0 : c->wanted;
        c->known = c->known && error->code != 0;
        give_up(t, name, error);
        return;
    }
    count(t, ROOTS_WRITTEN);
    note_moves(t);
    root_load_written(t);
    const struct event_object root = about(t);
    tell_put_back(t, &root, name);
    tell_taken_over(t, &root, name, &before);
    remember(t, object);
    if (c->accepted == 0) {
        replace_spec(t, object);
        return;
    }
    next_shard(t);
}

/* ---- what a child is to be, and is ---- */

/* What a child is made of: the same makes the same. */
static uint64_t wish_of(const struct root *t, const struct layout_shard *s)
{
    const struct shard_cache_config *config = root_config(t);
    const uint64_t parts[] = {config->digest,
                              t->needs_namespaces ? t->roots->names_digest : 0,
                              s->number,
                              s->first,
                              s->pods,
                              s->buckets,
                              t->pass.keeps ? json_digest(t->children[0].share) : 0,
                              (uint64_t)t->pass.keeps << 3 | (uint64_t)s->with_canary << 2 |
                                  (uint64_t)s->taken_over << 1 | (uint64_t)s->leaving};
    return keyed_hash(0, (struct slice){.ptr = (const char *)parts, .len = sizeof parts});
}

static cJSON *make_child(struct root *t, const struct layout_shard *shard, struct err *e)
{
    char ns[ROOT_NS_SIZE];
    struct child_options o = {.root = t->pass.whole,
                              .spec = &t->pass.spec,
                              .labels = &t->roots->options.labels,
                              .ns = root_namespace(t, ns),
                              .keeps = t->pass.keeps,
                              .had = t->children[0].share};
    if (t->needs_namespaces && !roots_names(t->roots, &o.namespaces)) {
        (void)err_set(e, -EAGAIN, "namespaces are not known");
        return NULL;
    }
    return child_make(&o, shard, e);
}

/* Of `wanted`, and without `others` of it. */
static bool same_texts(const cJSON *wanted, const cJSON *found, const char *prefix)
{
    static const char *const own[] = {ROOT_BUCKETS, ROOT_TAKEN_OVER, ROOT_LABEL, ROOT_PODS,
                                      ROOT_LEAVING};
    const cJSON *item = NULL;
    size_t len = strlen(prefix);
    cJSON_ArrayForEach(item, wanted)
    {
        bool kept = strncmp(item->string, prefix, len) == 0 && item->string[len] == '/';
        if (kept && strcmp(field_text(found, item->string), item->valuestring) != 0) {
            return false;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        char key[NAMES_KEY_SIZE];
        (void)names_key(prefix, own[i], key);
        if (field_get(wanted, key) == NULL && field_get(found, key) != NULL) {
            return false;
        }
    }
    return true;
}

static bool same_metadata(const cJSON *body, const cJSON *object, const char *prefix)
{
    const cJSON *wanted = field_get(body, "metadata");
    const cJSON *found = field_get(object, "metadata");
    return same_texts(field_get(wanted, "labels"), field_get(found, "labels"), prefix) &&
           same_texts(field_get(wanted, "annotations"), field_get(found, "annotations"), prefix);
}

/* Whether nothing is to be written. `config` is its own; NULL: there is none. */
static bool is_right(struct root *t, const struct root_child *c,
                     const struct shard_cache_config *config)
{
    const struct root_pass *p = &t->pass;
    if (c->base != 0) {
        return c->version != NULL && c->wanted == p->wish && c->accepted != 0;
    }
    if (config == NULL) {
        return false;
    }
    uint64_t spec = json_digest(field_get(p->body, "spec"));
    bool same = config->digest == spec || (c->specced == spec && c->accepted == config->digest);
    return same && same_metadata(p->body, config->object, t->roots->options.labels.prefix);
}

/* It is so without having been written: whatever is different later was done by somebody. */
static void note_right(struct root *t, struct root_child *c,
                       const struct shard_cache_config *config)
{
    if (c->base == 0) {
        c->wanted = t->pass.wish;
        c->specced = json_digest(field_get(t->pass.body, "spec"));
        c->accepted = config->digest;
        c->checked = root_version(config);
        c->checked_wish = wish_of(t, &t->pass.shard);
    }
}

/* Who did it, if nothing else is wished than before: told once for each version. */
static void note_edit(struct root *t, struct root_child *c, const struct shard_cache_config *config)
{
    struct root_pass *p = &t->pass;
    uint64_t version = root_version(config);
    p->deleted = config == NULL && c->known && c->base == 0 && c->wanted != 0;
    bool edited = config != NULL && c->base == 0 && c->wanted == p->wish && c->told != version;
    if (edited) {
        p->edited = version;
        p->changed_by = xstrdup(config->changed_by);
    }
}

static void add_precondition(struct root_pass *p, const struct root_child *c,
                             const struct shard_cache_config *config)
{
    struct edit ed = {.rc = 0};
    bool later = c->base != 0 && c->version != NULL;
    p->existed = later || config != NULL;
    if (p->existed) {
        (void)preconditions_set(&ed, p->body, later ? c->uid : config->uid,
                                later ? c->version : config->version);
    }
}

/* ---- which child is next ---- */

enum step { STEP_NONE, STEP_WAITS, STEP_OVER };

/* Buckets of a canary that there cannot be, and that no other shard has: the first one's that has
 * any. */
static uint32_t find_orphans(const struct root *t, const struct layout_shard *goal)
{
    const struct root_pass *p = &t->pass;
    const struct layout_shard *heir = NULL;
    uint32_t claimed = 0;
    for (size_t i = 0; i < p->layout.count; i++) {
        const struct layout_shard *s = &p->layout.shards[i];
        bool better = heir == NULL || (heir->buckets == 0 && s->buckets != 0);
        heir = s->number != 0 && better ? s : heir;
    }
    for (size_t i = 0; i < p->fact_count; i++) {
        claimed |= p->facts[i].buckets;
    }
    bool alone = p->barred && t->children[0].share == NULL;
    return alone && goal == heir ? p->spec.canary.buckets & ~claimed : 0;
}

/* As far as it is to be in this phase. False: there is nothing to be done about it yet. */
static bool choose_shard(struct root *t, const struct layout_shard *goal)
{
    struct root_pass *p = &t->pass;
    const struct root_child *c = &t->children[goal->number];
    uint32_t had = c->known ? c->buckets : 0;
    bool gains = (goal->buckets & ~had) != 0;
    bool loses = (had & ~goal->buckets) != 0;
    p->shard = *goal;
    if (goal->number == 0) {
        p->keeps = false;
        p->barred = false;
        return true;
    }
    if (p->phase == ROOT_SHRINK && !p->keeps) {
        return true;
    }
    p->shard.buckets |= had | find_orphans(t, goal);
    p->shard.taken_over = goal->taken_over && c->known && (c->taken_over || !loses);
    return !loses || gains || p->squeeze || p->keeps;
}

/* STEP_OVER: the pass cannot go on. */
static enum step make_body(struct root *t)
{
    struct root_pass *p = &t->pass;
    struct err e = ERR_INIT;
    p->body = make_child(t, &p->shard, &e);
    if (p->body != NULL) {
        p->wish = nonzero(json_digest(p->body));
        return STEP_NONE;
    }
    if (e.code == -EAGAIN) {
        reconcile_done(&t->run, WORK_DONE, 0);
        return STEP_WAITS;
    }
    p->invalid = e;
    return STEP_OVER;
}

/* The canary, of what it has now. */
static bool loses_share(const struct root *t)
{
    const struct root_pass *p = &t->pass;
    return p->phase == ROOT_GROW && p->shard.number == 0 &&
           !child_share_covers(root_child_share(p->body), t->children[0].share);
}

/* It keeps that in this phase; if others are refused it is made all the same, for it may select
 * their pods. */
static enum step keep_share(struct root *t)
{
    struct root_pass *p = &t->pass;
    p->keeps = true;
    p->shard.taken_over = t->children[0].known && t->children[0].taken_over;
    end_request(p);
    return p->squeeze ? make_body(t) : STEP_NONE;
}

static enum step look_at_shard(struct root *t, const struct layout_shard *goal)
{
    struct root_pass *p = &t->pass;
    struct root_child *c = &t->children[goal->number];
    const struct shard_cache_config *config = root_find_child(t, goal->number);
    bool foreign = config != NULL && !root_owns(t, config);
    (void)root_child_settle(t, c, config);
    if (!choose_shard(t, goal)) {
        return STEP_NONE;
    }
    if (foreign && c->base == 0) {
        p->conflict = p->conflict || goal->number == 0 || goal->buckets != 0;
        p->keeps = p->keeps || goal->number == 0;
        p->barred = p->barred || goal->number == 0;
        return STEP_NONE;
    }
    config = foreign ? NULL : config;
    if (config != NULL && c->base == 0 && c->checked == root_version(config) &&
        c->checked_wish == wish_of(t, &p->shard)) {
        return STEP_NONE;
    }
    enum step step = make_body(t);
    if (step == STEP_NONE && loses_share(t)) {
        step = keep_share(t);
    }
    if (step != STEP_NONE || p->body == NULL) {
        return step;
    }
    if (is_right(t, c, config)) {
        note_right(t, c, config);
        end_request(p);
        return STEP_NONE;
    }
    note_edit(t, c, config);
    add_precondition(p, c, config);
    p->base = root_version(root_find_child(t, p->shard.number));
    send_request(t, OBJECT_REQUEST_APPLY, field_meta(p->body, "name"), p->body, on_applied);
    return STEP_WAITS;
}

static enum step look_at_shards(struct root *t)
{
    struct root_pass *p = &t->pass;
    enum step step = STEP_NONE;
    while (step == STEP_NONE && p->at < p->layout.count) {
        step = look_at_shard(t, &p->layout.shards[p->at]);
        p->at += step == STEP_NONE;
    }
    return step;
}

/* ---- deleting ---- */

static void on_deleted(void *data, const cJSON *object, const struct api_error *error)
{
    struct root *t = data;
    struct root_pass *p = &t->pass;
    const struct root_removal *r = &p->removals[p->at];
    bool gone = object != NULL || error->code == 404;
    if (!gone && is_refusal(error)) {
        note_refusal(t, r->number, r->name, error);
    } else if (!gone) {
        give_up(t, r->name, error);
        return;
    } else {
        count(t, ROOTS_WRITTEN);
        log_info("deleted a child", log_str("root", t->key), log_str("child", r->name));
    }
    if (gone && r->number < ROOT_CHILDREN_MAX) {
        struct root_child *c = &t->children[r->number];
        root_child_forget(c);
        c->base = p->base;
        c->written_at = roots_now(t->roots);
        reconcile_after(&t->run, RECONCILE_BELIEF_MS + 1);
    }
    p->at++;
    go_on(t);
}

static void delete_child(struct root *t, const struct root_removal *r)
{
    bool stray = r->number == ROOT_CHILDREN_MAX;
    t->pass.base = stray ? 0 : root_version(root_find_child(t, r->number));
    cJSON *body = preconditions_delete(r->uid, r->version);
    send_request(t, OBJECT_REQUEST_DELETE, r->name, body, on_deleted);
    cJSON_Delete(body);
}

static enum step look_at_removals(struct root *t, bool strays)
{
    struct root_pass *p = &t->pass;
    for (; p->at < p->removal_count; p->at++) {
        if ((p->removals[p->at].number == ROOT_CHILDREN_MAX) == strays) {
            delete_child(t, &p->removals[p->at]);
            return STEP_WAITS;
        }
    }
    return STEP_NONE;
}

/* ---- from phase to phase ---- */

/* After a round of GROW with refusals another one is of use if something was written in it. */
static enum root_phase after_grow(struct root_pass *p)
{
    if (p->refused && (p->progress || !p->squeeze)) {
        p->squeeze = true;
        p->refused = false;
        p->progress = false;
        return ROOT_GROW;
    }
    return p->refused || p->conflict ? ROOT_OVER : ROOT_SHRINK;
}

static enum root_phase next_phase(struct root_pass *p)
{
    switch (p->phase) {
    case ROOT_STRAYS:
        p->refused = false;
        return ROOT_GROW;
    case ROOT_GROW:
        return after_grow(p);
    case ROOT_SHRINK:
        return p->refused ? ROOT_OVER : ROOT_REMOVE;
    case ROOT_REMOVE:
    case ROOT_OVER:
        break;
    }
    return ROOT_OVER;
}

static enum step look(struct root *t)
{
    switch (t->pass.phase) {
    case ROOT_STRAYS:
        return look_at_removals(t, true);
    case ROOT_GROW:
    case ROOT_SHRINK:
        return look_at_shards(t);
    case ROOT_REMOVE:
        return look_at_removals(t, false);
    case ROOT_OVER:
        break;
    }
    return STEP_OVER;
}

/* Another spec, or none any more: its change has brought it again. */
static bool is_stale(const struct root *t)
{
    const struct shard_cache_config *config = root_config(t);
    return config == NULL || strcmp(config->uid, t->uid) != 0 ||
           field_meta(config->object, "deletionTimestamp")[0] != '\0' ||
           config->digest != t->pass.digest;
}

/* Each shard that is to be has its share, or was taken over. */
static bool is_complete(const struct layout *l)
{
    bool complete = true;
    for (size_t i = 0; i < l->count; i++) {
        const struct layout_shard *s = &l->shards[i];
        bool has = s->number == 0 || (s->leaving ? s->buckets == 0 : s->buckets != 0);
        complete = complete && (has || s->taken_over);
    }
    return complete;
}

/* All was done. */
static void tell_resized(struct root *t)
{
    const struct layout *l = &t->pass.layout;
    if (t->pass.held || !is_complete(l)) {
        return;
    }
    if (t->size != 0 && (t->size != l->size || (t->moved > 0 && !t->told_takeover))) {
        const struct event_object root = about(t);
        event_record(t->roots->options.events, &root, EVENT_NORMAL, "Resized",
                     "From %u to %u shards; %zu bucket%s moved.", t->size, l->size, t->moved,
                     t->moved == 1 ? "" : "s");
    }
    t->size = l->size;
    t->moved = 0;
    t->told_takeover = false;
}

static void go_on(struct root *t)
{
    struct root_pass *p = &t->pass;
    if (is_stale(t)) {
        reconcile_done(&t->run, WORK_DONE, 0);
        return;
    }
    enum step step = look(t);
    while (step == STEP_NONE) {
        if (p->phase == ROOT_REMOVE) {
            tell_resized(t);
        }
        p->phase = next_phase(p);
        p->at = 0;
        step = look(t);
    }
    if (step == STEP_OVER) {
        p->phase = ROOT_OVER;
        root_report(t);
    }
}
