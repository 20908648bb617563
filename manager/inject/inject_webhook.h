/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_webhook.h - a second name for the port of the operator's own webhooks, that of the shard:
 * by it a Service leads to the pods of one shard (object/route_names.h).
 */
#ifndef MANAGER_INJECT_INJECT_WEBHOOK_H
#define MANAGER_INJECT_INJECT_WEBHOOK_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject_sidecars.h"
#include "json/edit.h"

/* 0, or -EINVAL with the field: the pod would be asked about the objects of another shard, or on
 * another port than its shard says. */
MUST_CHECK int inject_webhook_check(const struct inject_plan *plan, const cJSON *spec,
                                    struct err *e);

/* Adds it to the container of the operator that has the port; if none has it, to its main one. One
 * is enough: the containers of a pod share its address. Before the sidecars are added. */
void inject_webhook_add(struct edit *ed, const struct inject_plan *plan, cJSON *spec);

#endif
