/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_environment.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "inject/inject_settings.h"
#include "inject/inject_variables.h"

#define SETTING "CMESH_"
#define SETTING_OF_ALL "CMESH_LOG_"

enum { NAME_SIZE = 128, ARGUMENT_SIZE = 1024 };

/* By variables or by arguments; --proxy-arg gives some of them. */
static const char *const set_here[] = {"state", "status-lease", "watch-bypass", "egress"};

/* Returns the bytes of the name in NAME=VALUE; 0: it is none. Kubernetes takes more, but what is
 * a variable's name everywhere is enough. */
static size_t name_length(const char *text)
{
    size_t len = strcspn(text, "=");
    if (text[len] != '=' || len >= NAME_SIZE || isdigit((unsigned char)text[0]) != 0) {
        return 0;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '_' && isalnum((unsigned char)text[i]) == 0) {
            return 0;
        }
    }
    return len;
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* CMESH_LOG_LEVEL=debug as --log-level=debug. */
static int check_setting(const char *name, const char *value, struct err *e)
{
    char flag[NAME_SIZE];
    char argument[ARGUMENT_SIZE];
    size_t len = 0;
    for (const char *at = name + strlen(SETTING); *at != '\0'; at++) {
        flag[len++] = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
    }
    flag[len] = '\0';
    if (array_has(inject_own_flags, SIZE_MAX, flag) || ARRAY_HAS(set_here, flag)) {
        return err_set(e, -EINVAL, "--sidecar-env: %s is given by the injection itself", name);
    }
    int n = snprintf(argument, sizeof argument, "--%s=%s", flag, value);
    if (n < 0 || (size_t)n >= sizeof argument) {
        return err_set(e, -EINVAL, "--sidecar-env: the value of %s is too long", name);
    }
    if (flags_check_argument(inject_proxy_flags, argument, e) != 0) {
        err_prefix(e, "--sidecar-env: %s, of localproxy", name);
        return e->code;
    }
    return 0;
}

static int check_one(const char *text, struct err *e)
{
    char name[NAME_SIZE];
    size_t len = name_length(text);
    if (len == 0) {
        return err_set(e, -EINVAL,
                       "--sidecar-env: \"%.100s\" must be NAME=VALUE, with a name of letters, "
                       "digits and _",
                       text);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)len, text);
    if (begins_with(name, SETTING)) {
        return check_setting(name, text + len + 1, e);
    }
    if (begins_with(name, "KUBERNETES_SERVICE_")) {
        return err_set(e, -EINVAL,
                       "--sidecar-env: %s: where the API server is must stand in the pod's env",
                       name);
    }
    return inject_variables_allowed(name)
               ? 0
               : err_set(e, -EINVAL,
                         "--sidecar-env: %s is given by the injection itself, or would have the "
                         "sidecars run other code",
                         name);
}

static bool same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return len == strcspn(b, "=") && strncmp(a, b, len) == 0;
}

int inject_environment_check(const char *const *list, struct err *e)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        if (check_one(list[i], e) != 0) {
            return e->code;
        }
        for (size_t j = 0; j < i; j++) {
            if (same_name(list[i], list[j])) {
                return err_set(e, -EINVAL, "--sidecar-env: %.*s is given twice",
                               (int)strcspn(list[i], "="), list[i]);
            }
        }
    }
    return 0;
}

void inject_environment_add(struct edit *ed, const char *const *list, bool proxy, cJSON *container)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        char name[NAME_SIZE];
        size_t len = name_length(list[i]);
        (void)snprintf(name, sizeof name, "%.*s", (int)len, list[i]);
        bool theirs = proxy || !begins_with(name, SETTING) || begins_with(name, SETTING_OF_ALL);
        cJSON *env = theirs ? edit_array(ed, container, "env") : NULL;
        if (theirs && edit_find(env, "name", name) == NULL) {
            inject_variables_append(ed, env, name, list[i] + len + 1);
        }
    }
}
