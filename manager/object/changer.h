/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changer.h - who changed an object last, as its managedFields tell.
 */
#ifndef MANAGER_OBJECT_CHANGER_H
#define MANAGER_OBJECT_CHANGER_H

#include <cjson/cJSON.h>

#define CHANGER_SIZE 160

/* "NAME at TIME": of the field managers that are not among `but`, which ends with NULL, the one of
 * the last change; "" if there is none. Longer names are cut. */
void changer_find(const cJSON *meta, const char *const *but, char out[CHANGER_SIZE]);

#endif
