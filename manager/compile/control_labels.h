/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_labels.h - a limit that asks for a control label selects what has that label.
 *
 * `key notin (a)` selects what has no such label too. Of a control label that is what is not
 * labelled yet, or never: it is in no shard, and must not be in the one that takes "all the
 * others".
 */
#ifndef MANAGER_COMPILE_CONTROL_LABELS_H
#define MANAGER_COMPILE_CONTROL_LABELS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/selector.h"
#include "object/names.h"
#include "rules/rules.h"

#define CONTROL_LABEL_KEYS 3      /* control labels, */
#define CONTROL_LABEL_NAMESPACE 0 /* of which this one is the name of the object's namespace, */
#define CONTROL_LABEL_HASH 1      /* and this one its hash */

struct control_label_keys {
    char key[CONTROL_LABEL_KEYS][NAMES_KEY_SIZE];
};

/* Refuses DoesNotExist of a control label. `path` names the label selector. 0, -EINVAL. */
MUST_CHECK int control_labels_check(const struct control_label_keys *k, const cJSON *label_selector,
                                    const char *path, struct err *e);

/* Adds that the label is there, for each control label of which `s` takes what does not have it: of
 * `key notin (a)` it makes `key,key notin (a)`. Frees `s`. NULL: -E2BIG. */
MUST_CHECK struct selector *control_labels_demand(const struct control_label_keys *k,
                                                  struct selector *s, struct err *e);

/* Whether what the limits on a resource select is selected by a control label, too. */
bool control_labels_ask(const struct rules *rules, const struct rules_entry *entry);
/* Whether it accepts, by the control labels alone, objects in that namespace. *asks: whether it
 * asks for any. */
bool control_labels_accept(const struct rules *rules, const struct rules_entry *entry,
                           struct slice ns, bool *asks);
/* Whether any limit of the rules asks for one; for that of the hash. */
bool control_labels_any_ask(const struct rules *rules);
bool control_labels_ask_hash(const struct rules *rules);

#endif
