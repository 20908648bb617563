/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/text_diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

enum { CONTEXT = 3 }; /* lines around a change */

enum mark { KEPT, REMOVED, ADDED };

struct step {
    enum mark mark;
    const struct rules_text_line *line;
};

struct script {
    struct step *steps;
    size_t count;
};

/* ---- from one text to the other ---- */

/* Both are sorted, so merging them finds the shortest way. */
static void merge_lines(struct script *s, const struct rules_text *a, const struct rules_text *b)
{
    size_t i = 0;
    size_t j = 0;
    s->steps = xcalloc(a->count + b->count + 1, sizeof *s->steps);
    while (i < a->count || j < b->count) {
        int order = i == a->count   ? 1
                    : j == b->count ? -1
                                    : strcmp(a->lines[i].key, b->lines[j].key);
        s->steps[s->count++] = (struct step){.mark = order == 0  ? KEPT
                                                     : order < 0 ? REMOVED
                                                                 : ADDED,
                                             .line = order <= 0 ? &a->lines[i] : &b->lines[j]};
        i += order <= 0 ? 1 : 0;
        j += order >= 0 ? 1 : 0;
    }
}

/* ---- printing ---- */

static void print_run(const struct step *steps, size_t count, enum mark mark, struct buf *out)
{
    static const char signs[] = {[KEPT] = ' ', [REMOVED] = '-', [ADDED] = '+'};
    for (size_t i = 0; i < count; i++) {
        if (steps[i].mark == mark) {
            buf_printf(out, "%c%*s%s\n", signs[mark], (int)steps[i].line->depth * 2, "",
                       steps[i].line->text);
        }
    }
}

/* Of a run of changes what is removed comes first. */
static void print_steps(const struct step *steps, size_t count, struct buf *out)
{
    for (size_t i = 0, n; i < count; i += n) {
        bool kept = steps[i].mark == KEPT;
        for (n = 1; i + n < count && (steps[i + n].mark == KEPT) == kept; n++) {
        }
        if (kept) {
            print_run(&steps[i], n, KEPT, out);
        } else {
            print_run(&steps[i], n, REMOVED, out);
            print_run(&steps[i], n, ADDED, out);
        }
    }
}

static size_t count_without(const struct script *s, size_t begin, size_t end, enum mark mark)
{
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        count += s->steps[i].mark != mark ? 1 : 0;
    }
    return count;
}

/* "-3,7": the line it begins with and how many there are; as in diff, the line before if none. */
static void print_range(const struct script *s, size_t begin, size_t end, enum mark other,
                        char sign, struct buf *out)
{
    size_t count = count_without(s, begin, end, other);
    size_t first = count_without(s, 0, begin, other) + (count > 0 ? 1 : 0);
    buf_printf(out, " %c%zu,%zu", sign, first, count);
}

/* Behind the ranges stands what the first line is part of, if the hunk does not show it. */
static void print_hunk(const struct script *s, size_t begin, size_t end, struct buf *out)
{
    const struct rules_text_line *part = NULL;
    for (size_t i = begin; i > 0 && part == NULL && s->steps[begin].line->depth > 1; i--) {
        part = s->steps[i - 1].line->depth == 1 ? s->steps[i - 1].line : NULL;
    }
    buf_append_str(out, "@@");
    print_range(s, begin, end, ADDED, '-', out);
    print_range(s, begin, end, REMOVED, '+', out);
    buf_printf(out, " @@%s%s\n", part == NULL ? "" : " ", part == NULL ? "" : part->text);
    print_steps(&s->steps[begin], end - begin, out);
}

/* Where a hunk ends that has a change at `at`: before more than two contexts of kept lines. */
static size_t hunk_end(const struct script *s, size_t at)
{
    size_t last = at;
    for (size_t i = at; i < s->count && i - last <= (size_t)2 * CONTEXT; i++) {
        last = s->steps[i].mark != KEPT ? i : last;
    }
    size_t end = last + 1 + CONTEXT;
    return end < s->count ? end : s->count;
}

static void print_script(const struct script *s, struct buf *out)
{
    size_t end = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (i >= end && s->steps[i].mark != KEPT) {
            size_t begin = i > CONTEXT ? i - CONTEXT : 0;
            end = hunk_end(s, i);
            print_hunk(s, begin, end, out);
        }
    }
}

size_t text_diff(const struct rules_text *a, const struct rules_text *b, struct buf *out)
{
    struct script s = {.steps = NULL};
    merge_lines(&s, a, b);
    size_t changes = count_without(&s, 0, s.count, KEPT);
    print_script(&s, out);
    free(s.steps);
    return changes;
}
