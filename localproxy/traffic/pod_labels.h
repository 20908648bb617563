/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod_labels.h - the pod's labels, as the kubelet writes them to a file, which changes with them.
 *
 * The file is that of a downward API volume for the field metadata.labels: a line for each label,
 * its key, "=", and its value as Go's %q quotes it.
 *
 * Source: https://kubernetes.io/docs/concepts/workloads/pods/downward-api/, and
 * FormatMap in k8s.io/kubernetes/pkg/fieldpath.
 */
#ifndef LOCALPROXY_TRAFFIC_POD_LABELS_H
#define LOCALPROXY_TRAFFIC_POD_LABELS_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/selector.h"
#include "net/loop.h"

#define POD_LABELS_TEXT_MAX (256 * 1024) /* bytes; what an object may have of annotations */
#define POD_LABELS_MAX 4096

/* Labels that were read. */
struct pod_label_list {
    size_t count;
    struct selector_label *labels; /* views into `text` */
    struct buf text;
};

/* 0; or negative with `e` set and nothing to deinit: -EINVAL with the line that is no label,
 * -E2BIG, -ENOMEM. */
MUST_CHECK int pod_label_list_parse(struct slice text, struct pod_label_list *out, struct err *e);
void pod_label_list_deinit(struct pod_label_list *list);

struct pod_labels;

/* Reads the file, and follows it: `on_change` is called when the labels are others, or cannot be
 * read any more, or can again. NULL with `e` set: out of memory, the path is too long. */
MUST_CHECK struct pod_labels *pod_labels_new(struct net_loop *l, const char *path,
                                             void (*on_change)(void *data), void *data,
                                             struct err *e);

/* Those that were read last; none at first. Valid until on_change. */
const struct pod_label_list *pod_labels_list(const struct pod_labels *p);
/* Why they cannot be read now; NULL: they can. */
const struct err *pod_labels_trouble(const struct pod_labels *p);

/* NULL is ignored. */
void pod_labels_free(struct pod_labels *p);

#endif
