/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantity.h - amounts of resources as Kubernetes writes them: 50m, 1.5, 64Mi, 2e3.
 *
 * Source: k8s.io/apimachinery/pkg/api/resource, "Quantity".
 */
#ifndef CORE_KUBE_QUANTITY_H
#define CORE_KUBE_QUANTITY_H

#include "base/err.h"

/* 0 with its value, rounded where it is not a whole number; -EINVAL with `e` set for what the API
 * server would refuse as the amount of a resource, negative ones included. */
MUST_CHECK int quantity_parse(const char *text, double *value, struct err *e);

/* Writes it as an integer, 420Mi if that is as much, or in thousandths, rounded up. 0, or -ERANGE:
 * it is negative or so large that it may not be exact. */
#define QUANTITY_SIZE 32
MUST_CHECK int quantity_print(double value, char out[QUANTITY_SIZE]);

#endif
