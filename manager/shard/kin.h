/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kin.h - which shards of a namespace are of one operator.
 */
#ifndef MANAGER_SHARD_KIN_H
#define MANAGER_SHARD_KIN_H

#include <stdbool.h>
#include <stddef.h>

#include "rules/rules.h"
#include "shard/pod.h"
#include "shard/shard_cache.h"

#define KIN_ACCOUNTS_MAX 16

/* By what a shard's operator is told. Texts are not copied. */
struct kin {
    const char *names[2]; /* of its leader election: in the spec, and in the rules; NULL: none */
    const char *accounts[KIN_ACCOUNTS_MAX]; /* of its pods */
    size_t account_count;
};

/* `config` NULL: there is none; `lock`: of its rules, NULL or "": there is none. */
void kin_init(struct kin *k, const struct shard_cache_config *config, const char *lock,
              const struct pod *const *pods, size_t count);

/* Yes also where that cannot be told. */
bool kin_same_operator(const struct kin *a, const struct kin *b);

/* Whether the service account is one of its own, and not the one that pods have by default. */
bool kin_has_account(const struct kin *k, const char *account);

#endif
