/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/digest.h"

bool secret_equal(struct slice a, struct slice b)
{
    if (a.len != b.len) {
        return false;
    }
    unsigned diff = 0;
    for (size_t i = 0; i < a.len; i++) {
        diff |= (unsigned)((unsigned char)a.ptr[i] ^ (unsigned char)b.ptr[i]);
        /* Keeps the compiler from leaving the loop early. */
        __asm__ volatile("" : "+r"(diff));
    }
    return diff == 0;
}
