/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label_flags.h - the flags that name the control labels, for the manager and its commands.
 */
#ifndef MANAGER_COMPILE_LABEL_FLAGS_H
#define MANAGER_COMPILE_LABEL_FLAGS_H

#include "base/flags.h"

/* The names of the labels; prefix_ as compile_labels has it. */
#define LABEL_FLAGS_DEFAULTS(prefix_)                                                              \
    {                                                                                              \
        .prefix = (prefix_), .namespace = "namespace", .shard_hash = "sharding-hash",              \
        .control = "control"                                                                       \
    }

/* For the table. `labels` is the member of struct compile_labels. The other two: what the prefix is
 * of, and how its default is shown, NULL for itself. */
/* `at` is a struct flag_list. */
#define FLAGS_SHAREABLE(owner, at)                                                                 \
    {                                                                                              \
        .name = "shareable-namespaces", .value = "NS", FLAG_LIST_AT(owner, at),                    \
        .help = "A namespace that ShardingConfigs of others may share, too, by their "             \
                "sharedNamespaces; may be repeated."                                               \
    }
#define FLAGS_LABELS(owner, labels, prefix_help, prefix_default)                                   \
    {.name = "label-prefix",                                                                       \
     .value = "PREFIX",                                                                            \
     .default_text = (prefix_default),                                                             \
     FLAG_STRING_AT(owner, labels.prefix),                                                         \
     .help = "Prefix of the control labels" prefix_help "."},                                      \
        {.name = "label-namespace",                                                                \
         .value = "NAME",                                                                          \
         FLAG_STRING_AT(owner, labels.namespace),                                                  \
         .help = "Control label with an object's namespace: a name below the prefix, or a whole "  \
                 "key with a slash."},                                                             \
        {.name = "label-shard-hash",                                                               \
         .value = "NAME",                                                                          \
         FLAG_STRING_AT(owner, labels.shard_hash),                                                 \
         .help = "Control label with the hash of an object's namespace."},                         \
    {                                                                                              \
        .name = "label-control", .value = "NAME", FLAG_STRING_AT(owner, labels.control),           \
        .help = "Control label that says that an object is labelled."                              \
    }

#endif
