/* SPDX-License-Identifier: Apache-2.0 */
#include "json_cursor_test.c" // NOLINT(bugprone-suspicious-include): the same test of another build
