// The draw of a token from logits: masks, temperature, top-k, top-p and min-p, by kind (sampling.py explains the kinds).

#pragma once

#include "functions.h"

typedef struct {
    const f32 *logits, *unguided; // (V,); without guidance, `unguided` is null
    const f32 *bias; // added to the logits; −∞ for what cannot come next, (V,)
    const i32 *kind_of; // of each token, (V,)
    const i32 *untouched; // of each kind, whether sampling leaves it alone
    i32 vocabulary, kinds, top_k; // top_k 0 is no limit
    f32 guidance; // less 1
    f64 temperature, top_p, min_p, uniform;
} Draw;

// Limit the shares of one kind, (count,), to the most probable ones by top-k or top-p. Ties with the last are kept.
static void limit(f64 *shares, i32 count, i32 top_k, f64 top_p) {
    f64 sorted[count], before = 0;
    copy(sorted, shares, 8 * count);
    for (i32 gap = count / 2; gap; gap /= 2) // shell sort, descending
        for (i32 i = gap; i < count; i++)
            for (i32 j = i - gap; j >= 0 && sorted[j] < sorted[j + gap]; j -= gap) {
                f64 less = sorted[j];
                sorted[j] = sorted[j + gap], sorted[j + gap] = less;
            }
    i32 kept = 0;
    for (; kept < count && before < top_p && (!top_k || kept < top_k); kept++) before += sorted[kept];
    for (i32 i = 0; i < count; i++)
        if (shares[i] < sorted[MAX(kept, 1) - 1]) shares[i] = 0;
}

static void normalise_shares(f64 *shares, i32 count) {
    f64 sum = 0;
    for (i32 i = 0; i < count; i++) sum += shares[i];
    for (i32 i = 0; sum > 0 && i < count; i++) shares[i] /= sum;
}

// Turn the scores of one kind into shares: temperature, then top-k, top-p and min-p.
static void share(f64 *scores, i32 count, const Draw *d, f64 temperature, i32 limited) {
    f64 highest = -__builtin_inf(), most = 0;
    for (i32 i = 0; i < count; i++) highest = MAX(highest, scores[i]);
    for (i32 i = 0; i < count; i++) scores[i] = exponential((scores[i] - highest) / temperature);
    normalise_shares(scores, count);
    if (!limited) return;
    if (d->top_k) limit(scores, count, d->top_k, 2), normalise_shares(scores, count);
    if (d->top_p < 1) limit(scores, count, 0, d->top_p);
    for (i32 i = 0; i < count; i++) most = MAX(most, scores[i]);
    for (i32 i = 0; i < count; i++)
        if (scores[i] < d->min_p * most) scores[i] = 0;
    normalise_shares(scores, count);
}

// Return a token, −1 if none is allowed, or −2 if a logit is not finite. sampling.py explains the kinds.
static i32 draw_one(const Draw *d) {
    const i32 V = d->vocabulary, kinds = d->kinds, *kind_of = d->kind_of;
    f64 scores[V], chances[V], of_kind[kinds], highest = -__builtin_inf(), most = 0, total = 0, rising = 0;
    i32 best = -1;
    for (i32 t = 0; t < V; t++) {
        f32 logit = d->logits[t];
        if (d->unguided) logit += d->guidance * (logit - d->unguided[t]);
        if (!(__builtin_fabsf(logit) < __builtin_inff())) return -2;
        scores[t] = (f64)(logit + d->bias[t]);
        if (scores[t] > highest) highest = scores[t], best = t;
    }
    if (best < 0 || d->temperature == 0) return best;
    fill(of_kind, 0, 8 * kinds);
    for (i32 t = 0; t < V; t++) {
        if (scores[t] == -__builtin_inf()) continue;
        scores[t] -= highest;
        of_kind[kind_of[t]] += exponential(scores[t]);
    }
    for (i32 k = 0; k < kinds; k++) most = MAX(most, of_kind[k]);
    fill(chances, 0, 8 * V);
    for (i32 k = 0; k < kinds; k++) {
        f64 own[V];
        i32 tokens[V], count = 0;
        if (!(of_kind[k] > 0) || of_kind[k] < d->min_p * most) continue;
        for (i32 t = 0; t < V; t++)
            if (kind_of[t] == k && scores[t] != -__builtin_inf()) own[count] = scores[t], tokens[count++] = t;
        share(own, count, d, d->untouched[k] ? 1 : d->temperature, !d->untouched[k]);
        for (i32 i = 0; i < count; i++) chances[tokens[i]] = own[i] * of_kind[k];
    }
    for (i32 t = 0; t < V; t++) total += chances[t];
    for (i32 t = 0; t < V; t++) {
        rising += chances[t];
        if (chances[t] > 0) best = t;
        if (rising > d->uniform * total) break; // else the product was rounded up, and the last one is taken
    }
    return best;
}

EXPORT(draw) void draw(i32 count, const Draw *draws, i32 *tokens) {
    for (i32 i = 0; i < count; i++) tokens[i] = draw_one(draws + i);
}
