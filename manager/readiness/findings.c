/* SPDX-License-Identifier: Apache-2.0 */
#include "readiness/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/xalloc.h"
#include "json/json.h"

static const char *const words[FINDING_LEVELS] = {
    [FINDING_BREAKS] = "breaks",
    [FINDING_LOOK] = "look",
    [FINDING_UNKNOWN] = "unknown",
    [FINDING_FINE] = "fine",
};

/* What others have written can neither add a line nor reach the terminal. */
static char *make_plain(char *text)
{
    utf8_copy_plain(text, strlen(text) + 1, text);
    return text;
}

static char *format(const char *fmt, va_list args)
{
    char *text = NULL;
    xok(vasprintf(&text, fmt, args));
    return make_plain(text);
}

void findings_add(struct findings *f, enum finding_level level, const char *topic,
                  const char *remedy, const char *fmt, ...)
{
    va_list args;
    f->items = xrealloc(f->items, (f->count + 1) * sizeof *f->items);
    struct finding *one = &f->items[f->count++];
    *one = (struct finding){.level = level,
                            .topic = topic,
                            .remedy = remedy == NULL ? NULL : make_plain(xstrdup(remedy))};
    va_start(args, fmt);
    one->text = format(fmt, args);
    va_end(args);
    f->by_level[level]++;
}

void findings_deinit(struct findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->items[i].text);
        free(f->items[i].remedy);
    }
    free(f->items);
    *f = (struct findings){.items = NULL};
}

void findings_write_text(const struct findings *f, const char *about, struct buf *out)
{
    char *plain = make_plain(xstrdup(about));
    (void)buf_printf(out, "%s\n\n", plain);
    free(plain);
    for (unsigned level = 0; level < FINDING_LEVELS; level++) {
        for (size_t i = 0; i < f->count; i++) {
            const struct finding *one = &f->items[i];
            if (one->level == level) {
                (void)buf_printf(out, "%-8s %s: %s\n", words[level], one->topic, one->text);
            }
            if (one->level == level && one->remedy != NULL) {
                (void)buf_printf(out, "         -> %s\n", one->remedy);
            }
        }
    }
    (void)buf_printf(out, "\n%zu would break, %zu to look at, %zu unknown, %zu fine\n",
                     f->by_level[FINDING_BREAKS], f->by_level[FINDING_LOOK],
                     f->by_level[FINDING_UNKNOWN], f->by_level[FINDING_FINE]);
}

void findings_write_json(const struct findings *f, const char *about, struct buf *out)
{
    cJSON *document = cJSON_CreateObject();
    cJSON_AddStringToObject(document, "operator", about);
    cJSON *list = cJSON_AddArrayToObject(document, "findings");
    for (size_t i = 0; i < f->count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "level", words[f->items[i].level]);
        cJSON_AddStringToObject(one, "topic", f->items[i].topic);
        cJSON_AddStringToObject(one, "text", f->items[i].text);
        if (f->items[i].remedy != NULL) {
            cJSON_AddStringToObject(one, "remedy", f->items[i].remedy);
        }
        cJSON_AddItemToArray(list, one);
    }
    (void)json_indented(document, out);
    (void)buf_append(out, "\n", 1);
    cJSON_Delete(document);
}
