/* SPDX-License-Identifier: Apache-2.0 */
/*
 * long_selectors.h - selectors that make URLs longer than many load balancers take.
 */
#ifndef MANAGER_VALIDATE_LONG_SELECTORS_H
#define MANAGER_VALIDATE_LONG_SELECTORS_H

#include "object/warnings.h"
#include "rules/rules.h"

/* Bytes of a URL that nearly everything takes. kube-apiserver itself takes a MiB. */
#define LONG_SELECTORS_URL 8192
/* What it takes at most, beside a look at each pattern of the rules: as so many of those. */
#define LONG_SELECTORS_STEPS 4096

/* Notes, for the longest one of the rules, found at `path`, that requests get longer than that. */
void long_selectors_note(const struct rules *rules, const char *path, struct warnings *warnings);

#endif
