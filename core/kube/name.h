/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name.h - what names, label keys and label values may look like.
 *
 * Source: k8s.io/apimachinery/pkg/util/validation. Each function returns NULL for a good text, else
 * what is wrong with it, in Kubernetes' words, as a static string.
 */
#ifndef CORE_KUBE_NAME_H
#define CORE_KUBE_NAME_H

#include "base/slice.h"

#define NAME_LABEL_MAX 63      /* DNS-1123 label, name part of a key, label value */
#define NAME_SUBDOMAIN_MAX 253 /* DNS-1123 subdomain */

const char *name_check_label(struct slice text);     /* a namespace */
const char *name_check_subdomain(struct slice text); /* most objects' names */
const char *name_check_qualified(struct slice text); /* label keys: [subdomain/]name */
const char *name_check_value(struct slice text);     /* label values; may be empty */

#endif
