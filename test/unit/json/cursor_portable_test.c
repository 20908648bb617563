/* SPDX-License-Identifier: Apache-2.0 */
#include "cursor_test.c" // NOLINT(bugprone-suspicious-include): the same test of another build
