/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h - memory that held a credential is overwritten before it is freed.
 *
 * All take NULL (or an empty buffer) and do nothing then.
 */
#ifndef CORE_BASE_SECRET_H
#define CORE_BASE_SECRET_H

#include <cjson/cJSON.h>

#include "base/buf.h"

void secret_free(char *str);
/* As buf_reset. Bytes that a growing buffer left behind are beyond reach: reserve first. */
void secret_buf_reset(struct buf *b);
/* As cJSON_Delete: all strings of the tree are overwritten. */
void secret_json_delete(cJSON *item);

#endif
