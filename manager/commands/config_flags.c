/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/config_flags.h"

#include <string.h>

#include "kube/name.h"

static bool is_standard_input(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

void config_flags_check(const struct command *c, const char *const *files, size_t count,
                        const struct compile_options *o, const char *input_flag, const char *input)
{
    const char *prefix = o->labels.prefix;
    const char *wrong = prefix == NULL ? NULL : name_check_subdomain(slice_str(prefix));
    if (count == 0) {
        flags_misuse(c, "-f FILE is missing; - is standard input");
    }
    if (wrong != NULL) {
        flags_misuse(c, "--label-prefix: Invalid value: \"%.100s\": %s", prefix, wrong);
    }
    struct err e = ERR_INIT;
    if (sharing_check_flag(&o->shareable, &e) != 0) {
        flags_misuse(c, "%s", e.msg);
    }
    for (size_t i = 0; i < count; i++) {
        if (is_standard_input(files[i]) && is_standard_input(input)) {
            flags_misuse(c, "--filename and --%s cannot both be standard input", input_flag);
        }
    }
}
