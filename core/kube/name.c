/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/name.h"

static bool lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool letter_or_digit(char c)
{
    return lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

static bool dns_label(struct slice s)
{
    if (s.len == 0 || !lower_or_digit(s.ptr[0]) || !lower_or_digit(s.ptr[s.len - 1])) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!lower_or_digit(s.ptr[i]) && s.ptr[i] != '-') {
            return false;
        }
    }
    return true;
}

/* Alphanumeric at both ends, `-`, `_` and `.` between. */
static bool simple_name(struct slice s)
{
    if (s.len == 0 || !letter_or_digit(s.ptr[0]) || !letter_or_digit(s.ptr[s.len - 1])) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!letter_or_digit(c) && c != '-' && c != '_' && c != '.') {
            return false;
        }
    }
    return true;
}

const char *name_check_label(struct slice text)
{
    if (text.len > NAME_LABEL_MAX) {
        return "must be no more than 63 characters";
    }
    return dns_label(text) ? NULL
                           : "must consist of lower case alphanumeric characters or '-', and must "
                             "start and end with an alphanumeric character";
}

const char *name_check_subdomain(struct slice text)
{
    if (text.len > NAME_SUBDOMAIN_MAX) {
        return "must be no more than 253 characters";
    }
    size_t start = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i == text.len || text.ptr[i] == '.') {
            if (!dns_label(slice_of(text.ptr + start, i - start))) {
                return "must consist of lower case alphanumeric characters, '-' or '.', and must "
                       "start and end with an alphanumeric character";
            }
            start = i + 1;
        }
    }
    return NULL;
}

const char *name_check_qualified(struct slice text)
{
    struct slice name = text;
    const char *slash = text.len == 0 ? NULL : memchr(text.ptr, '/', text.len);
    if (slash != NULL) {
        size_t n = (size_t)(slash - text.ptr);
        name = slice_of(slash + 1, text.len - n - 1);
        if (name_check_subdomain(slice_of(text.ptr, n)) != NULL) {
            return "prefix part must be a lower case DNS subdomain of at most 253 characters";
        }
    }
    if (name.len > NAME_LABEL_MAX) {
        return "name part must be no more than 63 characters";
    }
    return simple_name(name) ? NULL
                             : "name part must consist of alphanumeric characters, '-', '_' or "
                               "'.', and must start and end with an alphanumeric character";
}

const char *name_check_value(struct slice text)
{
    if (text.len > NAME_LABEL_MAX) {
        return "must be no more than 63 characters";
    }
    return text.len == 0 || simple_name(text)
               ? NULL
               : "must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                 "and must start and end with an alphanumeric character";
}
