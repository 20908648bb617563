/* SPDX-License-Identifier: Apache-2.0 */
#include "label/labelling.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "compile/control_labels.h"

enum { NAMES_MAX = 3, LIST_SIZE = 400, WHY_MAX = 100 };

static const struct {
    const char *reason;
    const char *status;
} words[LABELLING_STATES] = {
    [LABELLING_NOT_COMPILED] = {"NotCompiled", "Unknown"},
    [LABELLING_OFF] = {"NotLabelling", "Unknown"},
    [LABELLING_UNDER_WAY] = {"Labelling", "False"},
    [LABELLING_NEVER] = {"NeverLabelled", "False"},
    [LABELLING_DONE] = {"Labelled", "True"},
};

const char *labelling_reason(enum labelling_state state)
{
    return words[state].reason;
}

const char *labelling_status(enum labelling_state state)
{
    return words[state].status;
}

/* ---- lists of resources ---- */

struct names {
    size_t count;
    size_t len;
    char text[LIST_SIZE];
};

static void append(struct names *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As far as there is room. */
static void append(struct names *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int more = vsnprintf(n->text + n->len, sizeof n->text - n->len, fmt, ap);
    va_end(ap);
    n->len += more < 0 ? 0 : (size_t)more;
    n->len = n->len < sizeof n->text ? n->len : sizeof n->text - 1;
}

/* True: it is one of the first, and something can be said of it. */
static bool add_name(struct names *n, const struct discovery_resource *d)
{
    if (++n->count > NAMES_MAX) {
        return false;
    }
    append(n, "%s%.63s%s%.63s", n->count > 1 ? ", " : "", d->plural, d->group[0] != '\0' ? "." : "",
           d->group);
    return true;
}

static void end_names(struct names *n)
{
    if (n->count > NAMES_MAX) {
        append(n, " and %zu more", n->count - NAMES_MAX);
    }
}

static void add_progress(struct names *n, const struct label_progress *p)
{
    if (p->error != NULL) {
        append(n, " (%.*s)", WHY_MAX, p->error);
    } else if (p->labelled == 0 && p->pending == 0) {
        append(n, " (not listed yet)");
    } else {
        append(n, " (%" PRIu64 " done, %zu waiting)", p->labelled, p->pending);
    }
}

/* ---- the whole ---- */

static void set(struct labelling *out, enum labelling_state state, const char *text)
{
    out->state = state;
    (void)snprintf(out->text, sizeof out->text, "%s", text);
}

void labelling_done(struct labelling *out)
{
    set(out, LABELLING_DONE, "What the limits select by control labels has them.");
}

static void conclude(struct labelling *out, struct names *due, struct names *never)
{
    char first[LIST_SIZE + 32] = "";
    char second[LIST_SIZE + 128] = "";
    end_names(due);
    end_names(never);
    if (due->count > 0) {
        (void)snprintf(first, sizeof first, "Being labelled: %s.%s", due->text,
                       never->count > 0 ? " " : "");
    }
    if (never->count > 0) {
        (void)snprintf(
            second, sizeof second,
            "Never labelled, so the shard sees none: %s. They are not namespaced, or not "
            "in --sharding-resources.",
            never->text);
    }
    out->state = due->count > 0     ? LABELLING_UNDER_WAY
                 : never->count > 0 ? LABELLING_NEVER
                                    : LABELLING_DONE;
    (void)snprintf(out->text, sizeof out->text, "%s%s", first, second);
    if (out->state == LABELLING_DONE) {
        labelling_done(out);
    }
}

static void look_through(const struct rules *rules, const struct label_progress_source *source,
                         const struct discovery_resource *all, size_t count, struct labelling *out)
{
    struct names due = {.count = 0};
    struct names never = {.count = 0};
    const struct rules_entry *last = NULL;
    bool last_asks = false;
    for (size_t i = 0; i < count; i++) {
        const struct discovery_resource *d = &all[i];
        const struct rules_entry *entry =
            d->preferred && (d->verbs & DISCOVERY_LIST) != 0
                ? rules_match(rules, slice_str(d->group), slice_str(d->plural))
                : NULL;
        if (entry == NULL) {
            continue;
        }
        last_asks = entry == last ? last_asks : control_labels_ask(rules, entry);
        last = entry;
        struct label_progress p = {.state = LABELLED_DONE};
        if (last_asks) {
            source->progress(source->data, d, &p);
        }
        if (p.state == LABELLED_DUE && add_name(&due, d)) {
            add_progress(&due, &p);
        } else if (p.state == LABELLED_NEVER) {
            (void)add_name(&never, d);
        }
    }
    conclude(out, &due, &never);
}

void labelling_look(const struct rules *rules, const struct label_progress_source *source,
                    struct labelling *out)
{
    const struct discovery_resource *all = NULL;
    size_t count = 0;
    if (rules == NULL) {
        set(out, LABELLING_NOT_COMPILED, "There are no rules of this spec.");
        return;
    }
    if (!control_labels_any_ask(rules)) {
        set(out, LABELLING_DONE, "No limit selects by control labels.");
        return;
    }
    enum label_progress_knowledge known =
        source == NULL ? LABELLED_BY_NOBODY : source->resources(source->data, &all, &count);
    if (known == LABELLED_BY_NOBODY) {
        set(out, LABELLING_OFF, "The manager labels nothing (--label-qps=0), so it does not know.");
    } else if (known == LABELLED_UNKNOWN) {
        set(out, LABELLING_UNDER_WAY, "Which resources the API server has is not known yet.");
    } else {
        look_through(rules, source, all, count, out);
    }
}
