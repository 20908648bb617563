/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scalar.h - what a plain (unquoted) scalar of YAML means.
 *
 * The rules of sigs.k8s.io/yaml: YAML 1.1 but for numbers to base 60 and dates, which are strings.
 */
#ifndef CORE_YAML_SCALAR_H
#define CORE_YAML_SCALAR_H

#include <stdbool.h>

enum yaml_scalar_type {
    YAML_STRING,
    YAML_NULL,
    YAML_BOOL,
    YAML_NUMBER,
    YAML_NOT_FINITE, /* .inf, .nan */
};

struct yaml_scalar {
    enum yaml_scalar_type type;
    bool boolean;
    double number;
};

struct yaml_scalar yaml_scalar_resolve(const char *plain);

/* Every reader takes `text`, written plain, for the string that it is. Errs towards quoting. */
bool yaml_scalar_plain_ok(const char *text);

#endif
