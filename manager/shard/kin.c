/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/kin.h"

#include <string.h>

#include "base/array.h"
#include "compile/compile.h"
#include "json/field.h"

static bool is_listed(const struct kin *k, const char *account)
{
    for (size_t i = 0; i < k->account_count; i++) {
        if (strcmp(k->accounts[i], account) == 0) {
            return true;
        }
    }
    return false;
}

static const char *name_or_null(const char *name)
{
    return name == NULL || name[0] == '\0' ? NULL : name;
}

void kin_init(struct kin *k, const struct shard_cache_config *config, const char *lock,
              const struct pod *const *pods, size_t count)
{
    *k = (struct kin){.account_count = 0};
    if (config != NULL) {
        const cJSON *controller = field_get(field_get(config->object, "spec"), "controller");
        k->names[0] = name_or_null(field_text(controller, COMPILE_LOCK_NAME));
    }
    k->names[1] = name_or_null(lock);
    for (size_t i = 0; i < count && k->account_count < KIN_ACCOUNTS_MAX; i++) {
        if (!is_listed(k, pods[i]->account)) {
            k->accounts[k->account_count++] = pods[i]->account;
        }
    }
}

static bool is_named(const struct kin *k)
{
    return k->names[0] != NULL || k->names[1] != NULL;
}

static bool has_name(const struct kin *k, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(k->names); i++) {
        if (k->names[i] != NULL && strcmp(k->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool kin_same_operator(const struct kin *a, const struct kin *b)
{
    if (is_named(a) && is_named(b)) {
        return (a->names[0] != NULL && has_name(b, a->names[0])) ||
               (a->names[1] != NULL && has_name(b, a->names[1]));
    }
    if (a->account_count == 0 || b->account_count == 0) {
        return true;
    }
    for (size_t i = 0; i < a->account_count; i++) {
        if (is_listed(b, a->accounts[i])) {
            return true;
        }
    }
    return false;
}

bool kin_has_account(const struct kin *k, const char *account)
{
    return strcmp(account, "default") != 0 && is_listed(k, account);
}
