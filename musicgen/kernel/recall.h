// Recall: guesses of the next token from earlier bars (recall.py explains them, and keeps the arrays).

#pragma once

#include "functions.h"

enum { OTHER, BAR, PART, ONSET, NOTE, ANNOTATION, PLAN, RETURN, RESTART, VALUES }; // kinds of tokens
enum { UNPLANNED, NEW, NAMED, UNNAMED }; // what the plan says of a bar
enum { START, REQUESTED_SOURCE, NOTES_HASH, COUNT, PLAN_LEVELS }; // columns of the table of bars
enum { INFINITE = 1 << 30, TABLE_SIZE = 1 << 14, MIN_MATCH = 4, MAX_COMPARED = 64, PHRASE = 4, NEAR = 16 };
enum { MIN_COPIED = 3, COPY_BONUS = 8 };

typedef struct {
    const i32 *kind, *value; // of each token, (V,)
    const i32 *named; // bars back of returns with a name
    const i32 *avoided; // hashes of the notes of bars that are not recalled
    i32 *ids, *table, *bars; // sounding tokens, hash table of contexts, and bars, (bars, columns)
    i32 named_count, avoided_count, columns;
    // The state, as listed in recall.py; −1 is none.
    i32 length, match, match_length, cursor, agreed, begun, first_bar, return_kind, source, last_copied, current_part,
        limit;
} Recall;

INLINE i32 *bar_of(const Recall *r, i32 bar) { return r->bars + bar * r->columns; }

// Set the cursor to the beginning of the source, or drop a source that cannot be recalled; a requested one always can.
static void go_to_source(Recall *r, i32 requested) {
    r->cursor = -1, r->agreed = 0;
    if (r->source < (requested ? 0 : r->first_bar)) r->source = -1;
    else if (!requested && bar_of(r, r->source)[COUNT] >= r->limit) r->source = -1;
    else r->cursor = bar_of(r, r->source)[START];
}

static i32 next_hash(i32 hash, i32 id) { return (i32)(((i64)hash * 1000003 + id) & 0x3FFFFFFF); }

static i32 among(i32 x, const i32 *list, i32 count) {
    for (i32 i = 0; i < count; i++)
        if (list[i] == x) return 1;
    return 0;
}

// Count the occurrences of a bar's notes as it ends: twice within a phrase; a silent bar always counts once.
static void count_repeats(Recall *r, i32 bar) {
    i32 notes = 0, *own = bar_of(r, bar);
    for (i32 i = own[START]; i < r->length; i++) {
        const i32 kind = r->kind[r->ids[i]];
        if (PART <= kind && kind <= NOTE) notes = next_hash(notes, r->ids[i]);
    }
    own[NOTES_HASH] = notes, own[COUNT] = 1;
    if (!notes) return;
    if (among(notes, r->avoided, r->avoided_count)) {
        own[COUNT] = INFINITE;
        return;
    }
    for (i32 other = bar - 1; other >= 0; other--)
        if (bar_of(r, other)[NOTES_HASH] == notes) {
            own[COUNT] = bar_of(r, other)[COUNT] + (bar - other <= PHRASE ? 2 : 1);
            return;
        }
}

// Return the bar with the most plan levels in common with this one, −1 for none; bars with a name are left out.
static i32 most_similar(const Recall *r, i32 bar) {
    i32 best = 0, chosen = -1;
    for (i32 other = r->first_bar; other < bar - NEAR; other++) {
        if (among(bar - other, r->named, r->named_count) || bar_of(r, other)[COUNT] >= r->limit) continue;
        i32 common = r->last_copied >= 0 && other == r->last_copied + 1 ? COPY_BONUS : 0;
        for (i32 before = 0; before < (other > r->first_bar ? 2 : 1); before++)
            for (i32 family = PLAN_LEVELS; family < r->columns; family++) {
                const i32 level = bar_of(r, bar - before)[family];
                common += level >= 0 && level == bar_of(r, other - before)[family];
            }
        if (common > best) best = common, chosen = other;
    }
    return chosen;
}

// Advance the cursor in the source bar past a token of the current bar.
static void align(Recall *r, i32 token) {
    const i32 kind = r->kind[token], value = r->value[token], cursor = r->cursor, *ids = r->ids;
    const i32 start = bar_of(r, r->source)[START], stop = bar_of(r, r->source + 1)[START] - 1;
    const i32 agrees = cursor >= 0 && ids[cursor] == token;
    r->agreed = agrees ? r->agreed + 1 : 0;
    if (agrees) {
        r->cursor = cursor + 1;
    } else if (kind == PART) { // the same part of the source: first after the cursor, then before it
        const i32 first = cursor < 0 ? start : cursor;
        r->cursor = -1;
        for (i32 offset = 0; offset < stop - start; offset++) {
            const i32 i = start + (first - start + offset) % (stop - start);
            if (ids[i] == token) {
                r->cursor = i + 1;
                return;
            }
        }
    } else if (cursor >= 0 && kind == ONSET) { // the same onset of the part, or the next one
        i32 i = cursor;
        for (; i < stop && r->kind[ids[i]] != PART; i++)
            if (r->kind[ids[i]] == ONSET && r->value[ids[i]] >= value) {
                r->cursor = i + (ids[i] == token);
                return;
            }
        r->cursor = i;
    } else if (cursor >= 0) { // the same token later in the onset; else it replaces that at the cursor, or is inserted
        for (i32 i = cursor; i < stop && r->kind[ids[i]] != PART && r->kind[ids[i]] != ONSET; i++)
            if (ids[i] == token) {
                r->cursor = i + 1;
                return;
            }
        if (cursor < stop && r->kind[ids[cursor]] == kind) {
            const i32 passed = kind != NOTE || r->value[ids[cursor]] <= value;
            r->cursor = cursor + (kind >= VALUES || (kind == NOTE && passed));
        } else if (kind == OTHER && r->current_part >= 0) { // which of the parts of one instrument it is
            r->cursor = -1;
            for (i32 i = start; i < stop - 1; i++)
                if (ids[i] == r->current_part && ids[i + 1] == token) {
                    r->cursor = i + 2;
                    return;
                }
        }
    }
}

// Append a token; continue the match, or find the latest earlier occurrence of the last tokens.
static void match(Recall *r, i32 token) {
    const i32 goes_on = r->match >= 0 && r->ids[r->match] == token;
    r->match = goes_on ? r->match + 1 : -1, r->match_length = goes_on ? r->match_length + 1 : 0;
    r->ids[r->length++] = token;
    const i32 now = r->length, *ids = r->ids;
    if (now < MIN_MATCH) return;
    i32 context = 0, length = 0;
    for (i32 i = now - MIN_MATCH; i < now; i++) context = next_hash(context, ids[i]);
    i32 *entry = r->table + (context ^ (context >> 15)) % TABLE_SIZE;
    const i32 earlier = *entry;
    *entry = now;
    if (r->match >= 0 || earlier < MIN_MATCH) return;
    while (length < MIN(MAX_COMPARED, earlier) && ids[earlier - 1 - length] == ids[now - 1 - length]) length++;
    if (length >= MIN_MATCH) r->match = earlier, r->match_length = length;
}

// Write the guesses of the next token, and their levels.
static void guess(const Recall *r, i16 *guesses) {
    fill(guesses, 0, 8);
    if (r->return_kind == NEW) {
        guesses[1] = 1;
    } else if (r->cursor >= 0) {
        i32 level = 0; // 0 to 4: 0, 1, 2 to 3, 4 to 7, 8 or more tokens
        for (i32 agreed = r->agreed; agreed && level < 4; agreed >>= 1) level++;
        guesses[0] = r->ids[r->cursor] + 1, guesses[1] = (r->return_kind == NAMED ? 3 : 8) + level;
    } else if (r->return_kind != UNPLANNED) {
        guesses[1] = 2;
    }
    if (r->match < 0) return;
    i32 bar = r->begun - 1;
    while (bar > 0 && bar_of(r, bar)[START] > r->match) bar--;
    if (bar_of(r, MAX(bar, 0))[COUNT] >= r->limit) return;
    const i32 n = r->match_length;
    guesses[2] = r->ids[r->match] + 1;
    guesses[3] = 1 + (n > 5) + (n > 7) + (n > 11) + (n > 15) + (n > 23) + (n > 39);
}

// Append a token, and write the guesses after it.
static void take(Recall *r, i32 token, i16 *guesses) {
    const i32 kind = r->kind[token], value = r->value[token], bar = r->begun - 1;
    if (kind == RESTART) {
        r->first_bar = r->begun, r->return_kind = UNPLANNED;
        r->source = r->cursor = r->last_copied = -1;
    } else if (kind == RETURN && bar >= 0) {
        r->return_kind = value == 0 ? NEW : value > 0 ? NAMED : UNNAMED, r->source = -1;
        const i32 requested = value && bar_of(r, bar)[REQUESTED_SOURCE] >= 0;
        if (requested) r->return_kind = NAMED, r->source = MIN(bar_of(r, bar)[REQUESTED_SOURCE], bar - 1);
        else if (value > 0) r->source = bar - value;
        else if (value < 0) r->source = most_similar(r, bar);
        go_to_source(r, requested);
    } else if (kind == PLAN && bar >= 0) {
        const i32 families = r->columns - PLAN_LEVELS;
        bar_of(r, bar)[PLAN_LEVELS + value % families] = value / families;
        if (r->return_kind == UNNAMED) r->source = most_similar(r, bar), go_to_source(r, 0);
    } else if (kind < ANNOTATION || kind >= VALUES) {
        if (kind == BAR) {
            r->last_copied = r->return_kind > NEW && r->agreed >= MIN_COPIED ? r->source : -1;
            r->return_kind = UNPLANNED;
            r->source = r->cursor = r->current_part = -1;
            if (bar >= 0) count_repeats(r, bar);
            bar_of(r, r->begun)[START] = r->length + 1;
            r->begun++;
        } else if (r->source >= 0) {
            align(r, token);
        }
        if (kind == PART) r->current_part = token;
        match(r, token);
    }
    guess(r, guesses);
}

// Append tokens to sequences, in order, and write the guesses after each, (count, 4).
EXPORT(recall) void recall(i32 count, Recall *const *sequences, const i32 *tokens, i16 *guesses) {
    for (i32 i = 0; i < count; i++) take(sequences[i], tokens[i], guesses + 4 * i);
}
