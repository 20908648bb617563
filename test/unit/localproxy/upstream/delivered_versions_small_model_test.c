/* SPDX-License-Identifier: Apache-2.0 */
#include "delivered_versions_model_test.c" // NOLINT(bugprone-suspicious-include): with little room
