/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/policies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ensure.h"
#include "base/file.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "net/timer.h"
#include "traffic/breaker_file.h"
#include "traffic/intercepts.h"
#include "traffic/pod_labels.h"

enum {
    WRITE_PAUSE_MS = 100,  /* between two writes of the state, but for what may not be lost */
    WRITE_AGAIN_MS = 5000, /* after one that failed */
    MS_US = 1000,
    SECOND_US = 1000000,
    SECOND_MS = 1000,
    RETRY_AFTER_MAX_S = 5,                   /* clients sleep for so long inside of the request */
    SERIES_BYTES = POLICIES_METRICS_MAX / 8, /* of one series of all rules, of which there are 7 */
};

struct policies {
    const struct net_clock *clock;
    const char *state_path;
    struct breaker_saved *saved; /* until the first document is in force */
    struct net_timer *timer;     /* until the state is written */
    uint64_t write_at;           /* not sooner */
    bool unwritten;
    bool write_failed;
    struct traffic *document;
    int64_t since;
    struct traffic_active active;
    struct breakers breakers;
    struct faults faults;
    struct intercepts intercepts;
    struct pod_labels *labels;            /* NULL: the pod has none */
    char why[ERR_MSG_MAX];                /* a document was refused */
    char heard[POLICIES_TROUBLE_MAX + 1]; /* one does not come here, as rulesync says */
    char unselected[128]; /* policies do not select a pod without labels, and it has none */
    policies_changed_cb on_changed;
    void *changed_data;
    struct listener {
        policies_changed_cb cb; /* NULL: the place is free */
        void *data;
    } on_faults[POLICIES_FAULT_LISTENERS];
    policies_changed_cb on_intercepts;
    void *intercepts_data;
};

/* ---- the state ---- */

static void write_state(struct policies *p)
{
    struct err e = ERR_INIT;
    bool failed = breaker_file_write(p->state_path, &p->breakers, &e) != 0;
    p->write_at = net_clock_now(p->clock) + (failed ? WRITE_AGAIN_MS : WRITE_PAUSE_MS);
    p->unwritten = failed;
    if (failed && !p->write_failed) {
        log_error("cannot write the state of circuit breakers: it will not outlive a restart",
                  log_str("error", e.msg));
    } else if (!failed && p->write_failed) {
        log_info("the state of circuit breakers is written again");
    }
    p->write_failed = failed;
}

/* Before a document is there, what was saved is not known to be over. */
static void save(struct policies *p)
{
    uint64_t now = net_clock_now(p->clock);
    if (p->state_path == NULL || p->saved != NULL) {
        return;
    }
    p->unwritten = true;
    if (now >= p->write_at || breaker_file_lacks(&p->breakers, now, WRITE_PAUSE_MS)) {
        write_state(p);
    }
    if (p->unwritten) {
        net_clock_set_timer(p->clock, p->timer, p->write_at > now ? p->write_at - now : 0);
    }
}

static void on_write_timer(void *data)
{
    struct policies *p = data;
    if (p->unwritten) {
        save(p);
    }
}

static int read_state(struct policies *p, struct err *e)
{
    struct err why = ERR_INIT;
    if (p->state_path == NULL) {
        return 0;
    }
    int rc = breaker_file_read(p->state_path, &p->saved, &why);
    if (rc == -ENOMEM) {
        *e = why;
        return rc;
    }
    if (rc != 0) {
        log_warn("starting without the saved state of circuit breakers", log_str("error", why.msg));
    }
    rc = file_check_writable(p->state_path, e);
    if (rc != 0) {
        err_prefix(e, "--breaker-state");
    }
    return rc;
}

/* ---- life ---- */

static void tell_changed(const struct policies *p)
{
    if (p->on_changed != NULL) {
        p->on_changed(p->changed_data);
    }
}

static void on_breaker_changed(void *data)
{
    struct policies *p = data;
    save(p);
    tell_changed(p);
}

/* Nobody has said where its labels are. */
static void note_unselected(struct policies *p)
{
    size_t count = 0;
    p->unselected[0] = '\0';
    if (p->labels != NULL || p->document == NULL) {
        return;
    }
    for (size_t i = 0; i < traffic_policy_count(p->document); i++) {
        count += traffic_policy_selects(traffic_policy_at(p->document, i), NULL, 0) ? 0 : 1;
    }
    if (count > 0) {
        (void)snprintf(p->unselected, sizeof p->unselected,
                       "the pod's labels are not known (--pod-labels): %zu of the policies do not "
                       "select it",
                       count);
    }
}

static void activate(struct policies *p)
{
    static const struct pod_label_list none;
    const struct pod_label_list *list = p->labels != NULL ? pod_labels_list(p->labels) : &none;
    if (p->document == NULL) {
        memset(&p->active, 0, sizeof p->active);
    } else {
        traffic_active_set(&p->active, p->document, list->labels, list->count);
    }
    note_unselected(p);
    breakers_activate(&p->breakers, list->labels, list->count);
    faults_activate(&p->faults, list->labels, list->count);
    intercepts_activate(&p->intercepts, list->labels, list->count);
    for (size_t i = 0; i < ARRAY_LEN(p->on_faults); i++) {
        if (p->on_faults[i].cb != NULL) {
            p->on_faults[i].cb(p->on_faults[i].data);
        }
    }
    if (p->on_intercepts != NULL) {
        p->on_intercepts(p->intercepts_data);
    }
    tell_changed(p);
}

static void on_labels(void *data)
{
    activate(data);
}

static uint64_t random_seed(const struct net_clock *clock)
{
    uint64_t high = net_clock_random(clock);
    return high << 32 | net_clock_random(clock);
}

struct policies *policies_new(struct net_loop *l, const struct policies_options *o, struct err *e)
{
    struct policies *p = calloc(1, sizeof *p);
    if (p == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    p->clock = o->clock != NULL ? o->clock : &net_clock_system;
    p->state_path = o->breaker_state;
    breakers_init(&p->breakers, p->clock);
    p->breakers.on_changed = on_breaker_changed;
    p->breakers.data = p;
    faults_init(&p->faults, o->seed != 0 ? o->seed : random_seed(p->clock));
    p->timer = net_timer_new(l, on_write_timer, p);
    if (p->timer == NULL) {
        (void)err_memory(e);
        goto failed;
    }
    if (read_state(p, e) != 0) {
        goto failed;
    }
    if (o->pod_labels != NULL) {
        p->labels = pod_labels_new(l, o->pod_labels, on_labels, p, e);
        if (p->labels == NULL) {
            err_prefix(e, "--pod-labels");
            goto failed;
        }
    }
    return p;

failed:
    policies_free(p);
    return NULL;
}

void policies_free(struct policies *p)
{
    if (p == NULL) {
        return;
    }
    if (p->unwritten) {
        write_state(p);
    }
    pod_labels_free(p->labels);
    net_timer_free(p->timer);
    breaker_saved_free(p->saved);
    breakers_deinit(&p->breakers);
    faults_deinit(&p->faults);
    intercepts_deinit(&p->intercepts);
    traffic_unref(p->document);
    free(p);
}

void policies_on_changed(struct policies *p, policies_changed_cb cb, void *data)
{
    p->on_changed = cb;
    p->changed_data = data;
}

void policies_on_faults(struct policies *p, policies_changed_cb cb, void *data)
{
    for (size_t i = 0; i < ARRAY_LEN(p->on_faults); i++) {
        if (p->on_faults[i].cb == NULL) {
            p->on_faults[i] = (struct listener){cb, data};
            return;
        }
    }
    ensure(false);
}

void policies_forget_faults(struct policies *p, const void *data)
{
    for (size_t i = 0; i < ARRAY_LEN(p->on_faults); i++) {
        if (p->on_faults[i].data == data) {
            p->on_faults[i] = (struct listener){.cb = NULL};
        }
    }
}

void policies_on_intercepts(struct policies *p, policies_changed_cb cb, void *data)
{
    p->on_intercepts = cb;
    p->intercepts_data = data;
}

/* ---- documents ---- */

/* Of the first document. */
static void restore(struct policies *p, struct breaker_turn *turn)
{
    if (p->document != NULL && p->saved != NULL) {
        breaker_file_restore(p->saved, &p->breakers, turn);
        breaker_saved_free(p->saved);
        p->saved = NULL;
    }
}

/* What a document is made into before it is in force. */
struct prepared {
    struct breaker_set *breakers;
    struct fault_set *faults;
    struct intercept_set *intercepts;
};

static int prepare(struct policies *p, struct traffic *document, struct breaker_turn *turn,
                   struct prepared *out)
{
    if (breakers_prepare(&p->breakers, document, turn, &out->breakers) != 0) {
        return -ENOMEM;
    }
    if (faults_prepare(&p->faults, document, &out->faults) != 0) {
        goto no_faults;
    }
    if (intercepts_prepare(document, &out->intercepts) != 0) {
        goto no_intercepts;
    }
    return 0;

no_intercepts:
    fault_set_unref(out->faults);
no_faults:
    breaker_set_unref(out->breakers);
    return -ENOMEM;
}

int policies_set(struct policies *p, struct traffic *document)
{
    struct traffic *before = p->document;
    struct breaker_turn turn = breakers_turn(&p->breakers);
    struct prepared made = {.breakers = NULL};
    if (document != NULL && prepare(p, document, &turn, &made) != 0) {
        return -ENOMEM;
    }
    breakers_put_in_force(&p->breakers, made.breakers, document, &turn);
    faults_put_in_force(&p->faults, made.faults, document);
    intercepts_put_in_force(&p->intercepts, made.intercepts);
    p->document = document == NULL ? NULL : traffic_ref(document);
    p->since = net_clock_wall(p->clock) / SECOND_US;
    p->why[0] = '\0';
    restore(p, &turn);
    traffic_unref(before);
    save(p);
    activate(p);
    return 0;
}

void policies_explain(struct policies *p, const char *why)
{
    (void)snprintf(p->why, sizeof p->why, "%s", why != NULL ? why : "");
    tell_changed(p);
}

void policies_hear(struct policies *p, const char *trouble)
{
    char before[sizeof p->heard];
    memcpy(before, p->heard, sizeof before);
    (void)snprintf(p->heard, sizeof p->heard, "%s", trouble);
    if (strcmp(before, p->heard) != 0) {
        tell_changed(p);
    }
}

const struct traffic *policies_document(const struct policies *p)
{
    return p->document;
}

int64_t policies_since(const struct policies *p)
{
    return p->since;
}

/* ---- a request ---- */

bool policies_have_faults(const struct policies *p)
{
    return p->active.any_fault;
}

bool policies_have_breakers(const struct policies *p)
{
    return p->active.any_limiting;
}

static void draw(struct policies *p, const struct traffic_found *found, struct fault_drawn *out)
{
    faults_draw(&p->faults, found, net_clock_wall(p->clock) / SECOND_US, out);
}

void policies_draw(struct policies *p, const struct traffic_request *r, struct fault_drawn *out)
{
    struct traffic_found found;
    traffic_find_faults(p->document, &p->active, r, &found);
    draw(p, &found, out);
}

/* More than a client may sleep in a request: nothing, so that it comes back by itself. */
static unsigned retry_after_of(uint64_t wait_ms)
{
    uint64_t s = (wait_ms + SECOND_MS - 1) / SECOND_MS;
    return wait_ms <= (uint64_t)RETRY_AFTER_MAX_S * SECOND_MS ? (unsigned)s : 0;
}

static bool admit(struct policies *p, const struct traffic_found *found, struct passage *passage,
                  struct buf *why, unsigned *retry_after)
{
    struct breaker *by;
    uint64_t wait_ms;
    if (found->count == 0) {
        passage->charged = true;
        return true;
    }
    struct breaker_turn turn = breakers_turn(&p->breakers);
    enum breaker_refusal refusal =
        breakers_admit(&p->breakers, found, &turn, &passage->ticket, &by, &wait_ms);
    passage->charged = refusal == BREAKER_ALLOWS;
    if (!passage->charged) {
        *retry_after = retry_after_of(wait_ms);
        breaker_message(by, refusal, why);
    }
    breakers_end_turn(&p->breakers, &turn);
    return passage->charged;
}

bool policies_admit(struct policies *p, const struct traffic_request *r, struct passage *passage,
                    struct buf *why, unsigned *retry_after)
{
    struct traffic_found found;
    traffic_find_limitings(p->document, &p->active, r, &found);
    return admit(p, &found, passage, why, retry_after);
}

/* ---- a request to another place than the API server ---- */

bool policies_have_external(const struct policies *p)
{
    return p->active.any_external;
}

bool policies_allow_external(struct policies *p, const struct traffic_external *r, struct buf *why)
{
    return intercepts_allow(&p->intercepts, &p->active, r, why);
}

bool policies_name_address(const struct policies *p, struct slice address, unsigned port)
{
    return p->document != NULL && traffic_names_address(p->document, &p->active, address, port);
}

void policies_draw_external(struct policies *p, const struct traffic_external *r,
                            struct fault_drawn *out)
{
    struct traffic_found found = {.count = 0};
    if (p->document != NULL) {
        traffic_find_http_faults(p->document, &p->active, r, &found);
    }
    draw(p, &found, out);
}

bool policies_admit_external(struct policies *p, const struct traffic_external *r,
                             struct passage *passage, struct buf *why, unsigned *retry_after)
{
    struct traffic_found found = {.count = 0};
    if (p->document != NULL) {
        traffic_find_url_limitings(p->document, &p->active, r, &found);
    }
    return admit(p, &found, passage, why, retry_after);
}

/* ---- what they say ---- */

/* A list that is being written, and what is left for it. */
struct writer {
    const struct policies_view *view;
    cJSON *traffic;
    size_t rules;
    size_t bytes;
    unsigned left_out;
};

static size_t printed_size(const cJSON *item)
{
    char *text = cJSON_PrintUnformatted(item);
    size_t size = text != NULL ? strlen(text) + 1 : SIZE_MAX;
    cJSON_free(text);
    return size;
}

/* What stands around the rules. */
static void account_frame(struct writer *w)
{
    size_t size = sizeof "\"traffic\":" + printed_size(w->traffic);
    w->bytes -= size < w->bytes ? size : w->bytes;
}

/* Whether the last item of that list fits; it is taken out if not. */
static bool fits(struct writer *w, const char *list)
{
    cJSON *items = cJSON_GetObjectItemCaseSensitive(w->traffic, list);
    int last = cJSON_GetArraySize(items) - 1;
    size_t size = printed_size(cJSON_GetArrayItem(items, last));
    if (size > w->bytes) {
        cJSON_DeleteItemFromArray(items, last);
        return false;
    }
    w->bytes -= size;
    return true;
}

/* `added`: the item is in the list. */
static void account(struct writer *w, const char *list, bool added)
{
    bool good = added && (w->bytes == SIZE_MAX || fits(w, list));
    w->rules -= good ? 1 : 0;
    w->left_out += good ? 0 : 1;
}

static void describe_breakers(struct policies *p, struct writer *w, bool closed)
{
    struct breaker_turn turn = breakers_turn(&p->breakers);
    for (size_t i = 0; p->breakers.now != NULL && i < p->breakers.now->count; i++) {
        struct breaker *b = p->breakers.now->at[i];
        struct control_breaker row;
        breaker_settle(b, &turn);
        if (!b->selects || (b->state == CONTROL_BREAKER_CLOSED) != closed) {
            continue;
        }
        breaker_describe(b, &row);
        row.refused = w->view->rough ? row.refused > 0 : row.refused;
        account(w, "breakers", w->rules > 0 && control_traffic_breaker_add(w->traffic, &row));
    }
    if (turn.changed) {
        save(p);
    }
}

static void describe_faults(const struct policies *p, struct writer *w)
{
    for (size_t i = 0; p->faults.now != NULL && i < p->faults.now->count; i++) {
        struct control_fault row;
        if (!p->faults.now->at[i]->in_force) {
            continue;
        }
        fault_describe(p->faults.now->at[i], &row);
        row.delayed = w->view->rough ? row.delayed > 0 : row.delayed;
        row.aborted = w->view->rough ? row.aborted > 0 : row.aborted;
        account(w, "faults", w->rules > 0 && control_traffic_fault_add(w->traffic, &row));
    }
}

/* Those that have refused requests, or the others. */
static void describe_intercepts(const struct policies *p, struct writer *w, bool refused)
{
    for (size_t i = 0; p->intercepts.now != NULL && i < p->intercepts.now->count; i++) {
        struct control_intercept row;
        intercept_describe(&p->intercepts.now->at[i], &row);
        if (!p->intercepts.now->at[i].in_force || (row.refused > 0) != refused) {
            continue;
        }
        row.refused = w->view->rough ? row.refused > 0 : row.refused;
        account(w, "intercepts", w->rules > 0 && control_traffic_intercept_add(w->traffic, &row));
    }
}

/* What keeps policies from being in force as they should. */
static const char *trouble_of(const struct policies *p)
{
    const struct err *labels = p->labels != NULL ? pod_labels_trouble(p->labels) : NULL;
    if (p->why[0] != '\0') {
        return p->why;
    }
    if (p->heard[0] != '\0') {
        return p->heard;
    }
    if (labels != NULL) {
        return labels->msg;
    }
    return p->unselected[0] != '\0' ? p->unselected : NULL;
}

void policies_describe(struct policies *p, const struct policies_view *view, cJSON *root)
{
    struct control_traffic_status s = {.error = trouble_of(p)};
    control_state_set_traffic(&s.document, p->document, p->since, NULL);
    struct writer w = {
        .view = view,
        .traffic = control_traffic_status_add(root, &s),
        .rules = view->rules,
        .bytes = view->bytes,
    };
    if (w.bytes != SIZE_MAX) {
        account_frame(&w);
    }
    describe_breakers(p, &w, false);
    describe_intercepts(p, &w, true); /* what is told before all that finds no place */
    describe_breakers(p, &w, true);
    describe_faults(p, &w);
    describe_intercepts(p, &w, false);
    cJSON *left_out = cJSON_GetObjectItemCaseSensitive(w.traffic, "leftOut");
    if (left_out != NULL) {
        cJSON_SetNumberValue(left_out, w.left_out);
    }
}

/* ---- metrics ---- */

/* Rule names may hold what ends a label's value. */
static void append_label(struct buf *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\n') {
            buf_append_str(out, "\\n");
            continue;
        }
        if (*c == '"' || *c == '\\') {
            buf_append_char(out, '\\');
        }
        buf_append_char(out, *c);
    }
}

static void begin_sample(struct buf *out, const char *name, const struct traffic_policy *policy,
                         const char *rule)
{
    buf_printf(out, "%s{policy=\"%s\",rule=\"", name, policy->name);
    append_label(out, rule);
    buf_append_char(out, '"');
}

/* Whether another rule may be told of. */
static bool has_room(size_t rules, const struct buf *out, size_t begun, size_t series)
{
    return rules < CONTROL_TRAFFIC_RULES_MAX && out->len - begun < series * SERIES_BYTES;
}

/* Where the samples of a series begin, and how many rules have theirs. */
struct series {
    size_t begun;
    size_t rules;
};

static void write_states_of(struct policies *p, bool closed, struct breaker_turn *turn,
                            const char *name, struct series *series, struct buf *out)
{
    for (size_t i = 0; p->breakers.now != NULL && i < p->breakers.now->count; i++) {
        struct breaker *b = p->breakers.now->at[i];
        breaker_settle(b, turn);
        if (b->selects && (b->state == CONTROL_BREAKER_CLOSED) == closed &&
            has_room(series->rules++, out, series->begun, 1)) {
            begin_sample(out, name, b->limiting->policy, b->limiting->name);
            buf_printf(out, "} %d\n", (int)b->state);
        }
    }
}

/* Those that are open first, which alerts wait for. */
static void write_states(struct policies *p, struct buf *out)
{
    static const char name[] = "cmesh_proxy_breaker_state";
    struct breaker_turn turn = breakers_turn(&p->breakers);
    struct series series = {.begun = out->len};
    prometheus_head(out, name, "gauge",
                    "State of a circuit breaker's rule: 0 closed, 1 opened, 2 half-open.");
    write_states_of(p, false, &turn, name, &series, out);
    write_states_of(p, true, &turn, name, &series, out);
    if (turn.changed) {
        save(p);
    }
}

static void write_refused(const struct policies *p, struct buf *out)
{
    static const char name[] = "cmesh_proxy_breaker_refused_total";
    size_t rules = 0;
    size_t begun = out->len;
    prometheus_head(out, name, "counter", "Requests that circuit breakers refused with 429.");
    for (size_t i = 0; p->breakers.now != NULL && i < p->breakers.now->count; i++) {
        const struct breaker *b = p->breakers.now->at[i];
        if (!b->selects || !has_room(rules++, out, begun, BREAKER_REFUSALS - 1)) {
            continue;
        }
        for (enum breaker_refusal r = BREAKER_ALLOWS + 1; r < BREAKER_REFUSALS; r++) {
            begin_sample(out, name, b->limiting->policy, b->limiting->name);
            buf_printf(out, ",why=\"%s\"} %" PRIu64 "\n", breaker_refusal_name(r), b->refused[r]);
        }
    }
}

static void write_faults(const struct policies *p, struct buf *out)
{
    static const char name[] = "cmesh_proxy_faults_total";
    size_t rules = 0;
    size_t begun = out->len;
    prometheus_head(out, name, "counter", "Requests that fault injections delayed or aborted.");
    for (size_t i = 0; p->faults.now != NULL && i < p->faults.now->count; i++) {
        const struct fault *f = p->faults.now->at[i];
        if (!f->in_force || !has_room(rules++, out, begun, 2)) {
            continue;
        }
        begin_sample(out, name, f->rule->policy, f->rule->name);
        buf_printf(out, ",kind=\"delay\"} %" PRIu64 "\n", f->delayed);
        begin_sample(out, name, f->rule->policy, f->rule->name);
        buf_printf(out, ",kind=\"abort\"} %" PRIu64 "\n", f->aborted);
    }
}

static void write_intercepts(const struct policies *p, struct buf *out)
{
    static const char name[] = "cmesh_proxy_intercepts_refused_total";
    size_t rules = 0;
    size_t begun = out->len;
    prometheus_head(out, name, "counter",
                    "Requests to other places than the API server that rules do not allow.");
    for (size_t i = 0; p->intercepts.now != NULL && i < p->intercepts.now->count; i++) {
        const struct intercept *x = &p->intercepts.now->at[i];
        if (x->in_force && has_room(rules++, out, begun, 1)) {
            begin_sample(out, name, x->rule->policy, x->rule->name);
            buf_printf(out, "} %" PRIu64 "\n", x->refused);
        }
    }
}

int policies_write_metrics(struct policies *p, size_t delayed, uint64_t skipped, struct buf *out)
{
    const struct prometheus_metric numbers[] = {
        {"cmesh_proxy_delayed_requests", "gauge", "Requests that a fault injection delays now.",
         delayed},
        {"cmesh_proxy_delays_skipped_total", "counter",
         "Requests that were to be delayed and went on at once, as too many were delayed.",
         skipped},
        {"cmesh_proxy_patterns_exhausted_total", "counter",
         "Regular expressions of traffic policies that took too long; the request was refused, or "
         "met no fault.",
         intercepts_exhausted(&p->intercepts)},
        {"cmesh_proxy_traffic_generation", "gauge",
         "Generation of the traffic policies in force; 0 without any.",
         p->document == NULL ? 0 : traffic_generation(p->document)},
    };
    write_states(p, out);
    write_refused(p, out);
    write_faults(p, out);
    write_intercepts(p, out);
    return prometheus_write(out, numbers, ARRAY_LEN(numbers));
}
