/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/pseudonym.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void pseudonym_init(struct pseudonym *p, uint32_t chance)
{
    (void)snprintf(p->name, sizeof p->name, "cmesh-%08" PRIx32, chance);
    (void)snprintf(p->of_1_0, sizeof p->of_1_0, "1.0 %s", p->name);
    (void)snprintf(p->of_1_1, sizeof p->of_1_1, "1.1 %s", p->name);
}

struct http_header pseudonym_via(const struct pseudonym *p, const struct http_head *head)
{
    return (struct http_header){SLICE("Via"), slice_str(head->minor == 0 ? p->of_1_0 : p->of_1_1)};
}

/* No other name and no comment that somebody meant otherwise is likely to hold it. */
bool pseudonym_has_passed(const struct pseudonym *p, const struct http_head *head)
{
    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (slice_ieq(h->name, SLICE("Via")) &&
            memmem(h->value.ptr, h->value.len, p->name, strlen(p->name)) != NULL) {
            return true;
        }
    }
    return false;
}
