/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone_file.h - time zones by their names in the IANA database: "Europe/Berlin" is
 * "CET-1CEST,M3.5.0,M10.5.0/3".
 *
 * The rule is the footer of the zone's file, which holds for all times after the changes that the
 * file lists one by one. Where these go on into the future, as in Morocco, whose clocks follow the
 * moon, the rule alone is wrong now and then. Source: RFC 8536.
 */
#ifndef MANAGER_POLICY_ZONE_FILE_H
#define MANAGER_POLICY_ZONE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ZONE_FILE_FOLDER "/usr/share/zoneinfo" /* of Debian's package tzdata */
#define ZONE_FILE_NAME_MAX 100                 /* characters of a name */
#define ZONE_FILE_RULE_MAX 255                 /* of a rule */

struct zone_rule {
    char text[ZONE_FILE_RULE_MAX + 1]; /* of POSIX, as base/time_zone.h parses it */
    int64_t differs; /* seconds since 1970 from which the clocks of the zone will, for a while, not
                        show what the rule says; 0: there is no such time after now */
};

/* Reads the zone's file in `folder`; NULL: ZONE_FILE_FOLDER. `now` in seconds since 1970. "UTC"
 * needs no file. 0; -EINVAL: it is no name of a zone, or its file is damaged; -ENOENT: there is no
 * such zone; or another error of the system. The message says what to do, without the name of the
 * zone. */
MUST_CHECK int zone_file_rule(const char *folder, const char *name, int64_t now,
                              struct zone_rule *out, struct err *e);

/* The same of what a file holds. */
MUST_CHECK int zone_file_parse(const void *data, size_t len, int64_t now, struct zone_rule *out,
                               struct err *e);

#endif
