/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubeconfig.h - kubeconfig files, found and merged as kubectl and client-go do it.
 *
 * The files are: an explicit path (it must exist), else the list $KUBECONFIG (missing ones are
 * skipped), else ~/.kube/config. The first file that has an entry of a name wins it whole; the
 * first current-context that is not empty counts. Only the names of the entries are looked at here:
 * kube/access.h makes an access of a context.
 *
 * https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
 */
#ifndef CORE_KUBE_ACCESS_KUBECONFIG_H
#define CORE_KUBE_ACCESS_KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "yaml/yaml.h"

#define KUBECONFIG_FILE_MAX (16u << 20)
#define KUBECONFIG_ENTRIES_MAX 10000 /* of each kind */

/* One file as it was read. */
struct kubeconfig_file {
    char *path;
    cJSON *tree;
    struct yaml_lines lines;
};

/* One element of clusters, users or contexts. */
struct kubeconfig_entry {
    const char *kind; /* "clusters", "users" or "contexts" */
    const char *name;
    const cJSON *body; /* the object under cluster, user or context; NULL when it is missing */
    const struct kubeconfig_file *file;
};

struct kubeconfig_list {
    struct kubeconfig_entry *items;
    size_t count;
};

struct kubeconfig {
    struct kubeconfig_file *files;
    size_t file_count;
    struct kubeconfig_list clusters;
    struct kubeconfig_list users;
    struct kubeconfig_list contexts;
    const char *current_context; /* "" when no file sets it */
};

/* `path` NULL: $KUBECONFIG or ~/.kube/config. NULL with `e` set: code -ENOENT when there is no
 * file at all, other codes for files that are there but wrong. */
MUST_CHECK struct kubeconfig *kubeconfig_load(const char *path, struct err *e);
/* Overwrites the memory that held credentials. */
void kubeconfig_free(struct kubeconfig *kc);

/* NULL when there is none of that name. */
const struct kubeconfig_entry *kubeconfig_find(const struct kubeconfig_list *list,
                                               const char *name);

/* The context of that name, or the current one when `name` is NULL. The error lists those that
 * there are. */
MUST_CHECK const struct kubeconfig_entry *kubeconfig_context(const struct kubeconfig *kc,
                                                             const char *name, struct err *e);

/* The cluster or the user that a context names; `key` is "cluster" or "user". NULL: it names none,
 * or `e` is set, since the kubeconfig has no such entry. */
const struct kubeconfig_entry *kubeconfig_referred(const struct kubeconfig *kc,
                                                   const struct kubeconfig_entry *context,
                                                   const char *key, struct err *e);

/*
 * Fields of an entry. `path` names one of its body, or one below that ("exec.command"). What is
 * wrong goes into `e`, which is not NULL; the first error stays there, and once there is one,
 * nothing more is read: a series of these needs one look at e->code at its end.
 */

/* NULL: missing or null. */
const cJSON *kubeconfig_value(const struct kubeconfig_entry *entry, const char *path);
/* NULL: missing, null, empty, or an error. */
const char *kubeconfig_string(const struct kubeconfig_entry *entry, const char *path,
                              struct err *e);
/* A copy of it, which the caller frees. */
char *kubeconfig_copy(const struct kubeconfig_entry *entry, const char *path, struct err *e);
bool kubeconfig_bool(const struct kubeconfig_entry *entry, const char *path, struct err *e);

/* Sets "<file>:<line>: <kind>[<name>].<path>: <text>", unless there is an error already. */
void kubeconfig_fail(const struct kubeconfig_entry *entry, const char *path, struct err *e,
                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
