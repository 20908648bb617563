/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spelling.h"

#include <limits.h>
#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned spelling_distance(const char *a, const char *b)
{
    unsigned rows[3][SPELLING_MAX + 1];
    size_t m = strlen(a);
    size_t n = strlen(b);
    if (m > SPELLING_MAX || n > SPELLING_MAX) {
        return UINT_MAX;
    }
    for (size_t j = 0; j <= n; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= m; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0),
                           least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], rows[(i + 1) % 3][j - 2] + 1);
            }
        }
    }
    return rows[m % 3][n];
}
