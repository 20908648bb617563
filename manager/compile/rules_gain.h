/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_gain.h - what a shard comes to see when its rules change.
 *
 * Decided from the rules alone, for all objects that there could be, resource by resource. What no
 * limit mentions is seen under all rules, and never gained.
 */
#ifndef MANAGER_COMPILE_RULES_GAIN_H
#define MANAGER_COMPILE_RULES_GAIN_H

#include <stdbool.h>

#include "rules/rules.h"

/* Whether some object is seen under `to`, not under `from` (NULL: nothing is), and under `others`
 * too (NULL: everything is). Yes also where that is not sure: with `>` and `<`, where one selects
 * by one label and one by another, with very many resources or values. */
bool rules_gain(const struct rules *from, const struct rules *to, const struct rules *others);

#endif
