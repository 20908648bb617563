/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_attributes.h - what a request sees or writes, as far as a change of the rules concerns
 * it.
 */
#ifndef LOCALPROXY_UPSTREAM_REQUEST_ATTRIBUTES_H
#define LOCALPROXY_UPSTREAM_REQUEST_ATTRIBUTES_H

#include "base/err.h"
#include "kube/request_info.h"
#include "rules/rules.h"
#include "upstream/delivered_versions.h"

/* Slices point into the request_info it was read from, or, after request_attributes_keep, into
 * `memory`. */
struct request_attributes {
    enum request_verb verb;
    struct slice gateway; /* empty: it is to the API server itself */
    struct slice group;
    struct slice version_name; /* of the group, as "v1" */
    struct slice resource;
    struct slice namespace;
    struct slice name;
    struct delivered_key key;
    uint64_t version;    /* watch: go on from it; 0: begin with what there is */
    uint64_t page;       /* list: hash of the `continue` token; 0: from the beginning */
    bool newest;         /* of what there is now, and not of what a memory may hold */
    bool exact;          /* resourceVersionMatch=Exact */
    bool bookmarks;      /* watch: allowWatchBookmarks=true */
    bool initial_events; /* watch: sendInitialEvents=true, a list in the form of events */
    bool object;         /* write: the answer is the object, as it is stored then, or a Status */
    char *memory;
};

/* Reads what a resource request asks for. */
void request_attributes_read(struct request_attributes *s, const struct request_info *ri);

/* Sees or ends collections by selector: list, watch, deletecollection. */
bool request_attributes_is_selected(const struct request_attributes *s);
/* Changes objects: create, update, patch, delete, deletecollection. */
bool request_verb_is_write(enum request_verb verb);

/* What the rules (NULL: none) limit it to; NULL: nothing does. */
const struct rules_entry *request_attributes_entry(const struct request_attributes *s,
                                                   const struct rules *r);
/* The entry's id; 0 without one. */
uint64_t request_attributes_selector(const struct request_attributes *s, const struct rules *r);

/* Copies to keep, with memory of its own. 0 or -ENOMEM. */
MUST_CHECK int request_attributes_keep(struct request_attributes *to,
                                       const struct request_attributes *from);
void request_attributes_deinit(struct request_attributes *s);

/* As much of a request_info as rules and fence look at. It points into the attributes. */
void request_attributes_to_request_info(const struct request_attributes *s,
                                        struct request_info *ri);

#endif
