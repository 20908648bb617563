/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/never_labelled.h"

#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"
#include "compile/control_labels.h"

/* A warning has room for so many, and each for so much of it. */
enum { NAMES_MAX = 3, NAME_MAX_LEN = 40 };

/* But for namespaces, which are labelled. */
const struct never_labelled never_labelled_anywhere[] = {
    {"", "componentstatuses"},
    {"", "nodes"},
    {"", "persistentvolumes"},
    {"admissionregistration.k8s.io", "mutatingwebhookconfigurations"},
    {"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
    {"apiextensions.k8s.io", "customresourcedefinitions"},
    {"apiregistration.k8s.io", "apiservices"},
    {"certificates.k8s.io", "certificatesigningrequests"},
    {"networking.k8s.io", "ingressclasses"},
    {"node.k8s.io", "runtimeclasses"},
    {"rbac.authorization.k8s.io", "clusterrolebindings"},
    {"rbac.authorization.k8s.io", "clusterroles"},
    {"scheduling.k8s.io", "priorityclasses"},
    {"storage.k8s.io", "csidrivers"},
    {"storage.k8s.io", "csinodes"},
    {"storage.k8s.io", "storageclasses"},
    {"storage.k8s.io", "volumeattachments"},
};
const size_t never_labelled_anywhere_count = ARRAY_LEN(never_labelled_anywhere);

struct names {
    size_t count;
    size_t len;
    char text[NAMES_MAX * (2 * NAME_MAX_LEN + 8)];
};

static void add_name(struct names *n, const struct never_labelled *r)
{
    if (n->count++ >= NAMES_MAX) {
        return;
    }
    int more = snprintf(n->text + n->len, sizeof n->text - n->len, "%s%.*s%s%.*s",
                        n->count > 1 ? ", " : "", NAME_MAX_LEN, r->resource,
                        r->group[0] != '\0' ? "." : "", NAME_MAX_LEN, r->group);
    n->len += more > 0 ? (size_t)more : 0;
}

void never_labelled_note(const struct rules *rules, const char *path,
                         const struct never_labelled *list, size_t count, struct warnings *warnings)
{
    struct names names = {.count = 0};
    char more[32] = "";
    bool any = control_labels_any_ask(rules);
    for (size_t i = 0; any && i < count; i++) {
        const struct rules_entry *entry =
            rules_match(rules, slice_str(list[i].group), slice_str(list[i].resource));
        if (entry != NULL && control_labels_ask(rules, entry)) {
            add_name(&names, &list[i]);
        }
    }
    if (names.count > NAMES_MAX) {
        (void)snprintf(more, sizeof more, " and %zu more", names.count - NAMES_MAX);
    }
    if (names.count > 0) {
        warnings_add(warnings,
                     "%s: never labelled, so selected by control labels the shard sees "
                     "none: %s%s (not namespaced, or not in --sharding-resources)",
                     path, names.text, more);
    }
}
