/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.h - nat-init's flags.
 */
#ifndef NAT_INIT_FLAGS_H
#define NAT_INIT_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flags.h"

/* Strings point into argv or the environment. */
struct nat_init_flags {
    struct flags_common common;
    struct flag_list servers; /* HOST:PORT; none: as the pod's variables say */
    uint64_t to_port;
    uint64_t except_user;
    bool print;
    bool remove;
};

/* Ends the process on --help, --version and wrong usage. */
void nat_init_flags_parse(struct nat_init_flags *c, int argc, char **argv);

#endif
