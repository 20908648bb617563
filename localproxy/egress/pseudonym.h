/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pseudonym.h - the name that this process has in Via (RFC 9110, section 7.6.3): "cmesh-" and eight
 * hexadecimal digits of chance. A request that comes with it has been here before. Without chance
 * the requests of other pods, which came through another localproxy, would seem to be loops.
 */
#ifndef LOCALPROXY_EGRESS_PSEUDONYM_H
#define LOCALPROXY_EGRESS_PSEUDONYM_H

#include <stdbool.h>
#include <stdint.h>

#include "http/message.h"

#define PSEUDONYM_SIZE sizeof "cmesh-00000000"

struct pseudonym {
    char name[PSEUDONYM_SIZE];
    char of_1_0[PSEUDONYM_SIZE + 4]; /* with the version of who sent the message */
    char of_1_1[PSEUDONYM_SIZE + 4];
};

void pseudonym_init(struct pseudonym *p, uint32_t chance);

/* The header that is added to a message; a view into `p`. */
struct http_header pseudonym_via(const struct pseudonym *p, const struct http_head *head);
/* Whether one of the message's Via headers has the name. */
bool pseudonym_has_passed(const struct pseudonym *p, const struct http_head *head);

#endif
