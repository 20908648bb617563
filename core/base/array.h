/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array.h - the length of an array, which must not have become a pointer.
 */
#ifndef CORE_BASE_ARRAY_H
#define CORE_BASE_ARRAY_H

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

#endif
