/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope.h - what a request sees or writes, as far as a change of the rules concerns it.
 */
#ifndef LOCALPROXY_GUARD_SCOPE_H
#define LOCALPROXY_GUARD_SCOPE_H

#include "base/err.h"
#include "guard/resume.h"
#include "kube/request_info.h"
#include "rules/rules.h"

/* Slices point into the request_info it was read from, or, after scope_keep, into `memory`. */
struct scope {
    enum request_verb verb;
    struct slice group;
    struct slice resource;
    struct slice namespace;
    struct slice name;
    struct resume_key key;
    uint64_t version;    /* watch: go on from it; 0: begin with what there is */
    uint64_t page;       /* list: hash of the `continue` token; 0: from the beginning */
    bool newest;         /* list: of what there is now, and not of what a memory may hold */
    bool bookmarks;      /* watch: allowWatchBookmarks=true */
    bool initial_events; /* watch: sendInitialEvents=true, a list in the form of events */
    char *memory;
};

/* Reads what a resource request asks for. */
void scope_read(struct scope *s, const struct request_info *ri);

/* Sees or ends collections by selector: list, watch, deletecollection. */
bool scope_is_selected(const struct scope *s);
/* Changes objects: create, update, patch, delete, deletecollection. */
bool scope_is_write(const struct scope *s);

/* The id of what the rules limit it to; 0: nothing does. Without rules 0. */
uint64_t scope_selector(const struct scope *s, const struct rules *r);

/* Copies to keep, with memory of its own. 0 or -ENOMEM. */
MUST_CHECK int scope_keep(struct scope *to, const struct scope *from);
void scope_deinit(struct scope *s);

/* As much of a request_info as rules and fence look at. It points into the scope. */
void scope_to_request_info(const struct scope *s, struct request_info *ri);

#endif
