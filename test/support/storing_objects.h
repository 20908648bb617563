/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storing_objects.h - what storing_api.c does with the objects that storing_objects.c keeps.
 */
#ifndef TEST_SUPPORT_STORING_OBJECTS_H
#define TEST_SUPPORT_STORING_OBJECTS_H

#include "kube/request_info.h"
#include "storing_api.h"

/* A status that no API server has: 409 with the reason AlreadyExists. */
enum { STORE_EXISTS = 1409 };

enum store_patch { STORE_MERGE_PATCH, STORE_JSON_PATCH, STORE_APPLY, STORE_APPLY_FORCE };

/* Does what a request about one object asks for. The status, and the object that is answered. */
unsigned store_act(struct storing_api *s, const struct request_info *ri, enum store_patch kind,
                   cJSON *body, const cJSON **out);
/* Something was written. */
void store_changed(struct storing_api *s);
void store_free_objects(struct storing_api *s);

#endif
