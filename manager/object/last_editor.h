/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last_editor.h - who changed an object last, as its managedFields tell.
 */
#ifndef MANAGER_OBJECT_LAST_EDITOR_H
#define MANAGER_OBJECT_LAST_EDITOR_H

#include <cjson/cJSON.h>

#define LAST_EDITOR_SIZE 160

/* "NAME at TIME": of the field managers that are not among `but`, which ends with NULL, the one of
 * the last change; "" if there is none. Longer names are cut. */
void last_editor_find(const cJSON *meta, const char *const *but, char out[LAST_EDITOR_SIZE]);

#endif
