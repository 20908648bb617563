/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_in_use.h - the bytes of the heap in use, with AddressSanitizer or without.
 */
#ifndef TEST_SUPPORT_HEAP_IN_USE_H
#define TEST_SUPPORT_HEAP_IN_USE_H

#include <malloc.h>
#include <stddef.h>

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static inline size_t heap_in_use(void)
{
    return __sanitizer_get_current_allocated_bytes != NULL
               ? __sanitizer_get_current_allocated_bytes()
               : mallinfo2().uordblks;
}

#endif
