/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/selector_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/heap_size.h"
#include "base/list.h"

const struct selector_text *selector_texts_find(const struct selector_texts *t, const char *written)
{
    return TABLE_FIND(&t->table, slice_str(written), struct selector_text);
}

/* NULL only without memory: what was written is at most SELECTOR_TEXT_MAX, and blanks are added. */
static char *print(const struct selector *selector)
{
    struct buf text = BUF_INIT((size_t)2 * SELECTOR_TEXT_MAX);
    char *canonical = selector_print(selector, &text) == 0 ? buf_take_str(&text) : NULL;
    buf_reset(&text);
    return canonical;
}

static int make_room(struct selector_texts *t)
{
    if (t->table.count < t->room) {
        return 0;
    }
    size_t room = t->room == 0 ? 16 : 2 * t->room;
    struct selector **compiled = realloc(t->compiled, room * sizeof(struct selector *));
    if (compiled == NULL) {
        return -1;
    }
    t->compiled = compiled;
    t->room = room;
    return 0;
}

static struct selector_text *new_text(const char *written, const struct selector *compiled)
{
    size_t size = strlen(written) + 1;
    struct selector_text *text = calloc(1, sizeof *text + size);
    if (text == NULL) {
        return NULL;
    }
    memcpy(text->written, written, size);
    text->canonical = print(compiled);
    if (text->canonical == NULL) {
        free(text);
        return NULL;
    }
    if (strcmp(text->canonical, text->written) == 0) {
        free(text->canonical);
        text->canonical = text->written;
    }
    text->length = strlen(text->canonical);
    return text;
}

static void free_text(struct selector_text *text)
{
    if (text->canonical != text->written) {
        free(text->canonical);
    }
    free(text);
}

const struct selector_text *selector_texts_add(struct selector_texts *t, const char *written,
                                               struct selector *compiled)
{
    struct selector_text *text = make_room(t) == 0 ? new_text(written, compiled) : NULL;
    if (text == NULL) {
        goto failed;
    }
    text->place = (uint32_t)t->table.count;
    if (table_insert(&t->table, &text->node, text->written) != 0) {
        goto failed_text;
    }
    size_t count = 0;
    (void)selector_requirements(compiled, &count);
    t->requirements += count;
    t->compiled[text->place] = compiled;
    return text;

failed_text:
    free_text(text);
failed:
    selector_free(compiled);
    return NULL;
}

size_t selector_texts_weight(const struct selector_texts *t)
{
    size_t sum = t->room * sizeof(struct selector *) + t->table.room * sizeof(struct table_node *);
    for (size_t i = 0; i < t->table.count; i++) {
        sum += selector_weight(t->compiled[i]);
    }
    for (struct table_node *n = NULL; (n = table_next(&t->table, n)) != NULL;) {
        const struct selector_text *text = LIST_ITEM(n, struct selector_text, node);
        sum += heap_size(sizeof *text + strlen(text->written) + 1);
        sum += text->canonical == text->written ? 0 : heap_size(text->length + 1);
    }
    return sum;
}

void selector_texts_deinit(struct selector_texts *t)
{
    for (size_t i = 0; t->compiled != NULL && i < t->table.count; i++) {
        selector_free(t->compiled[i]);
    }
    free(t->compiled);
    for (struct table_node *n = NULL; (n = table_next(&t->table, NULL)) != NULL;) {
        table_remove(&t->table, n);
        free_text(LIST_ITEM(n, struct selector_text, node));
    }
    table_deinit(&t->table);
}
