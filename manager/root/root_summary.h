/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root_summary.h - what the status of a root says, in a few words, for the admin page.
 */
#ifndef MANAGER_ROOT_ROOT_SUMMARY_H
#define MANAGER_ROOT_ROOT_SUMMARY_H

#include <cjson/cJSON.h>

/* Appends {namespace, name, size, shards, enforced, state, message}; the last only of one that is
 * not Ready. */
void root_summary_add(cJSON *array, const cJSON *root);

#endif
