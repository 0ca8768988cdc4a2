// The kernel: everything with which a model plays, from a token to the draw of the next one.
//
// It is compiled to WebAssembly (`make kernel`), whose integers and floats give the same bits on every machine. All
// functions with rounding that a library could choose (exp, sine, sums) are written here (functions.h). This file has the
// network: its tables, products, positions, attention and a step. draw.h draws a token, recall.h guesses the next one.
//
// A step takes items, one token each of some sequence. An item gives the same bits whatever items come with it: products
// are integer sums, and each item is otherwise computed by itself, in order. So a prompt is read as many items of one
// sequence, and a batch of takes is one item each.
//
// Weights are 8-bit codes with a scale per output. Activations are rounded to 16-bit codes with a scale per token, so
// that eight products and four sums are one instruction.
//
// The host (host.py, network.py) owns the memory and writes the structures; their fields are in the same order there.
//
// C width, H heads, D head width, W encoded width, M features, V tokens, N features and R rows of metric heads.

#include "functions.h"
#include "draw.h"
#include "recall.h"

// ---------------------------------------------------------------------------------------------- the model's tables

typedef struct { // a linear layer of all layers
    const i8 *codes; // (L, outputs / 4, inputs / 8, 4, 8)
    const f32 *scale, *bias; // (L, outputs)
    i32 given, inputs, outputs; // inputs, also padded to a multiple of 8; outputs, padded to a multiple of 4
    f32 most; // the largest code of an activation: no sum overflows
} Matrices;

typedef struct { // vectors by number; codes are null if the model has none
    const i8 *codes; // (rows, C)
    const f32 *scale; // (rows,)
} Rows;

enum { RELU, ELU, FAVOR, GELU }; // feature maps and activations
enum { NONE, SINE, CONVOLUTION, ROTATION, WAVES, LEARNED }; // positions

static struct {
    i32 vocabulary, layers, width, heads, head_width, encoded, columns, features;
    i32 pre_norm, activation, feature_map;
    f32 floor, epsilon, root_width;
    f32 favor_bound, favor_norm, favor_projection, favor_offset; // of |x| and |ωx| before and after scaling; 1/√M
    Matrices qkv, output, inner, outer, head; // qkv: queries, keys and values of all heads, then of the metric heads
    const f32 *norms; // weight and bias of both norms of each layer, (L, 2, 2, C), and of the last one
    const f32 *omega; // (L, W, columns)
    const f32 *decay; // (H,)
    Rows embedding, goals, planned, matched, trust, level;
    i32 planned_levels;
    i32 step_ticks;
    const i32 *steps, *tick, *goal_of; // of each token: moves of musical time, and its number as a goal; (V,)
    i32 metric_heads, metric_features, metric_rows;
    const i32 *period, *first_row; // of each metric head
    const f64 *ratio;
    f32 **free_blocks; // of metric memory, (L, N, D + 1) each
    const f32 *zeros; // one layer of a block without entries
    i32 free_count;
    i32 position, musical, slots, gated, waves, taps, ring;
    const f64 *frequencies; // cycles per token or tick: (slots, H, D, waves); of rotations (H, D/2) or (C/2,)
    const f64 *offsets; // cycles
    const f32 *gains; // of sines; filters of queries and keys, (slots, 2, H, D, taps); learned vectors, (positions, C)
    const f32 *mix; // of the gates: √(1 − δ) and √δ, (L, 2, H, D)
    f32 noise_scale;
    // Room for the items of a step.
    f32 *x, *wide, *found, *hidden, *logits, *code;
    i16 *activations;
    f32 *activation_scale;
    f32 **key_block, **query_block;
    f32 *key_decay;
} model;

typedef struct { // the state of a sequence
    f32 *sums; // (L, H, M · D + M): sums of key features times values, and of key features
    f32 **blocks; // of the rows of the metric memory, null before the first entry, odd if shared with a copy: (R,)
    i32 *newest; // period of each row's newest entry, (R,)
    f32 *logits; // of the next token, (V,)
    f32 *noise; // of sine SPE: Z, (slots, H, D, 2 · waves, W); of the gates: ε, (slots, H, D, W)
    f32 *ring; // white noise of convolutional SPE from the current position on, (slots, H, D, ring, W)
    u64 seed;
    i32 position, tick, goal, drawn; // noise is drawn up to a position
} Sequence;

typedef struct {
    Sequence *sequence;
    i32 token;
    i16 planned, planned_level, matched, matched_level; // guesses of recall
    f32 strength;
} Item;

EXPORT(model_at) void *model_at(void) { return &model; }
EXPORT(move) void move(u8 *to, const u8 *from, i32 bytes) { copy(to, from, bytes); }
EXPORT(clear) void clear(u8 *at, i32 bytes) { fill(at, 0, bytes); }

// ---------------------------------------------------------------------------------------------- products

INLINE v128_t at(const f32 *x) { return wasm_v128_load(x); }
INLINE v128_t mul(v128_t a, v128_t b) { return wasm_f32x4_mul(a, b); }
INLINE v128_t add(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
INLINE v128_t each(f32 x) { return wasm_f32x4_splat(x); }

INLINE f32 lanes(v128_t x) {
    return (wasm_f32x4_extract_lane(x, 0) + wasm_f32x4_extract_lane(x, 1)) +
           (wasm_f32x4_extract_lane(x, 2) + wasm_f32x4_extract_lane(x, 3));
}

INLINE v128_t sums_of_lanes(v128_t a, v128_t b, v128_t c, v128_t d) { // four sums of four integers
    v128_t ab = wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), wasm_i32x4_shuffle(a, b, 2, 6, 3, 7));
    v128_t cd = wasm_i32x4_add(wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), wasm_i32x4_shuffle(c, d, 2, 6, 3, 7));
    return wasm_i32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

// Four outputs of `n` items. `codes` and activations are read in steps of eight inputs.
INLINE void tile(const i32 n, const i8 *codes, const i16 *activations, i32 inputs, v128_t *out) {
    v128_t sums[2][4];
    UNROLL for (i32 i = 0; i < n; i++)
        UNROLL for (i32 o = 0; o < 4; o++) sums[i][o] = wasm_i32x4_const(0, 0, 0, 0);
    for (i32 k = 0; k < inputs; k += 8, codes += 32)
        UNROLL for (i32 o = 0; o < 4; o++) {
            v128_t weights = wasm_i16x8_load8x8(codes + 8 * o);
            UNROLL for (i32 i = 0; i < n; i++) {
                v128_t both = wasm_i32x4_dot_i16x8(weights, wasm_v128_load(activations + i * inputs + k));
                sums[i][o] = wasm_i32x4_add(sums[i][o], both);
            }
        }
    UNROLL for (i32 i = 0; i < n; i++)
        out[i] = wasm_f32x4_convert_i32x4(sums_of_lanes(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
}

// Write the product of a layer's matrix and the activations of all items.
static void product(const Matrices *m, i32 layer, i32 count, f32 *out) {
    const i32 inputs = m->inputs, outputs = m->outputs;
    const i8 *codes = m->codes + layer * inputs * outputs;
    for (i32 o = 0; o < outputs; o += 4, codes += 4 * inputs) {
        v128_t scale = at(m->scale + layer * outputs + o), bias = at(m->bias + layer * outputs + o), y[2];
        for (i32 i = 0; i < count; i += 2) {
            const i32 n = MIN(2, count - i);
            const i16 *activations = model.activations + i * inputs;
            if (n == 2) tile(2, codes, activations, inputs, y);
            else tile(1, codes, activations, inputs, y);
            for (i32 j = 0; j < n; j++) {
                v128_t whole = mul(mul(y[j], scale), each(model.activation_scale[i + j]));
                wasm_v128_store(out + (i + j) * outputs + o, add(whole, bias));
            }
        }
    }
}

// Round the inputs of a product to codes: (count, given), with rows `stride` apart.
static void quantise(const Matrices *m, i32 count, const f32 *x, i32 stride) {
    const i32 given = m->given, inputs = m->inputs;
    for (i32 i = 0; i < count; i++, x += stride) {
        i16 *codes = model.activations + i * inputs;
        v128_t most = each(0);
        for (i32 k = 0; k < given; k += 4) most = wasm_f32x4_max(most, wasm_f32x4_abs(at(x + k)));
        f32 largest = MAX(MAX(wasm_f32x4_extract_lane(most, 0), wasm_f32x4_extract_lane(most, 1)),
                          MAX(wasm_f32x4_extract_lane(most, 2), wasm_f32x4_extract_lane(most, 3)));
        model.activation_scale[i] = largest / m->most;
        v128_t factor = each(largest > 0 ? m->most / largest : 0);
        for (i32 k = 0; k < given; k += 4) {
            v128_t whole = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(mul(at(x + k), factor)));
            wasm_v128_store64_lane(codes + k, wasm_i16x8_narrow_i32x4(whole, whole), 0);
        }
        if (inputs > given) fill(codes + given, 0, 2 * (inputs - given));
    }
}

static void normalise(const f32 *norm, i32 count, const f32 *x, f32 *out) { // (count, C); out can be x
    const i32 width = model.width;
    for (i32 i = 0; i < count; i++, x += width, out += width) {
        v128_t sum = each(0), squares = each(0);
        for (i32 c = 0; c < width; c += 4) sum = add(sum, at(x + c));
        v128_t mean = each(lanes(sum) / width);
        for (i32 c = 0; c < width; c += 4) {
            v128_t apart = wasm_f32x4_sub(at(x + c), mean);
            squares = add(squares, mul(apart, apart));
        }
        v128_t scale = each(1 / __builtin_sqrtf(lanes(squares) / width + model.epsilon));
        for (i32 c = 0; c < width; c += 4) {
            v128_t y = mul(wasm_f32x4_sub(at(x + c), mean), scale);
            wasm_v128_store(out + c, add(mul(y, at(norm + c)), at(norm + width + c)));
        }
    }
}

INLINE void add_columns(const i32 n, f32 *out, const f32 *x, const f32 *matrix, i32 rows, i32 columns) {
    v128_t sums[8];
    UNROLL for (i32 j = 0; j < n; j++) sums[j] = at(out + 4 * j);
    for (i32 i = 0; i < rows; i++) {
        v128_t factor = wasm_v128_load32_splat(x + i);
        UNROLL for (i32 j = 0; j < n; j++) sums[j] = add(sums[j], mul(factor, at(matrix + i * columns + 4 * j)));
    }
    UNROLL for (i32 j = 0; j < n; j++) wasm_v128_store(out + 4 * j, sums[j]);
}

// Add x · matrix to `out`: (rows,), (rows, columns) → (columns,), a multiple of four.
static void add_product(f32 *out, const f32 *x, const f32 *matrix, i32 rows, i32 columns) {
    i32 c = 0;
    for (; c + 32 <= columns; c += 32) add_columns(8, out + c, x, matrix + c, rows, columns);
    for (; c < columns; c += 4) add_columns(1, out + c, x, matrix + c, rows, columns);
}

// Add a row of vectors, times a factor, to `out`; number 0 is none.
static void add_row(Rows rows, i32 number, f32 *out, f32 factor) {
    if (!rows.codes || !number) return;
    const i8 *codes = rows.codes + (number - 1) * model.width;
    for (i32 c = 0; c < model.width; c++) out[c] += codes[c] * rows.scale[number - 1] * factor;
}

static void add_guess(Rows rows, i32 number, i32 level, f32 *out, f32 factor) {
    if (number) {
        const i8 *codes = rows.codes + (number - 1) * model.width, *trust = model.trust.codes + level * model.width;
        f32 scale = rows.scale[number - 1], trust_scale = model.trust.scale[level];
        for (i32 c = 0; c < model.width; c++) out[c] += codes[c] * scale * (trust[c] * trust_scale) * factor;
    }
    add_row(model.level, level + 1, out, factor);
}

// ---------------------------------------------------------------------------------------------- positions

static i32 code_size(void) { // floats of an item's code, which is that of its query, then of its key
    const i32 by_head = model.heads * model.head_width;
    return model.position == ROTATION ? 2 * by_head : 2 * by_head * model.encoded;
}

// Draw the white noise of convolutional SPE for all positions that steps from this one on need.
static void draw_ring(Sequence *s, i32 stop) {
    const i32 width = model.encoded, channels = model.slots * model.heads * model.head_width;
    for (; s->drawn < stop; s->drawn++)
        for (i32 channel = 0; channel < channels; channel++) {
            f32 *out = s->ring + (channel * model.ring + s->drawn % model.ring) * width;
            normals(s->seed, ((u64)s->drawn * channels + channel) * width, out, width, 1);
        }
}

// Write the code of one side of an item at a place: for each head and feature, a row of W numbers.
static void form_side(const Sequence *s, i32 slot, i32 side, i32 place, f32 *code) {
    const i32 width = model.encoded, channels = model.heads * model.head_width, waves = model.waves, taps = model.taps;
    if (model.position == ROTATION) { // cosines and sines
        for (i32 i = 0; i < channels / 2; i++) {
            f64 turns = place * model.frequencies[model.musical ? i : i % (model.head_width / 2)], cosine, sine;
            wave(turns - __builtin_floor(turns), &cosine, &sine);
            code[2 * i] = (f32)cosine, code[2 * i + 1] = (f32)sine;
        }
        return;
    }
    fill(code, 0, 4 * channels * width);
    for (i32 channel = slot * channels; channel < (slot + 1) * channels; channel++, code += width)
        if (model.position == SINE) {
            f32 both[2 * waves];
            for (i32 k = 0; k < waves; k++) {
                const i32 i = channel * waves + k;
                f64 turns = place * model.frequencies[i], cosine, sine;
                wave(turns - __builtin_floor(turns) + (side ? 0 : model.offsets[i]), &cosine, &sine);
                both[2 * k] = (f32)cosine * model.gains[i], both[2 * k + 1] = (f32)sine * model.gains[i];
            }
            add_product(code, both, s->noise + channel * 2 * waves * width, 2 * waves, width);
        } else {
            const f32 *filter = model.gains + ((slot + side) * channels + channel) * taps;
            const f32 *ring = s->ring + channel * model.ring * width;
            i32 start = place % model.ring, whole = MIN(taps, model.ring - start);
            add_product(code, filter, ring + start * width, whole, width);
            if (whole < taps) add_product(code, filter + whole, ring, taps - whole, width);
        }
}

static void form_code(const Sequence *s, i32 slot, i32 query, i32 key, f32 *code) {
    form_side(s, slot, 0, query, code);
    form_side(s, slot, 1, key, code + code_size() / 2);
}

// Encode one head's query or key, (D,) → (W,).
static void encode(const Sequence *s, i32 layer, i32 side, i32 head, const f32 *code, const f32 *x, f32 *out) {
    const i32 D = model.head_width, W = model.encoded;
    code += side * code_size() / 2;
    if (model.position == ROTATION) {
        code += head * D;
        for (i32 d = 0; d < D; d += 2) {
            out[d] = x[d] * code[d] - x[d + 1] * code[d + 1];
            out[d + 1] = x[d] * code[d + 1] + x[d + 1] * code[d];
        }
    } else if (model.position == SINE || model.position == CONVOLUTION) {
        code += head * D * W;
        fill(out, 0, 4 * W);
        if (!model.gated) return add_product(out, x, code, D, W);
        f32 gated[D];
        const f32 *mix = model.mix + layer * 2 * model.heads * D + head * D;
        const i32 slot = model.slots > 1 ? layer : 0, z = model.position == SINE ? 2 * model.waves : 0;
        const f32 *epsilon = s->noise + (model.slots * z + slot) * model.heads * D * W + head * D * W;
        for (i32 d = 0; d < D; d++) gated[d] = x[d] * mix[d];
        add_product(out, gated, code, D, W);
        for (i32 d = 0; d < D; d++) gated[d] = x[d] * mix[model.heads * D + d];
        add_product(out, gated, epsilon, D, W);
    } else {
        copy(out, x, 4 * D);
    }
}

// ---------------------------------------------------------------------------------------------- attention

// Write the features of an encoded query or key, (W,) → (M,).
static void feature(i32 layer, i32 is_key, const f32 *x, f32 *out) {
    const i32 W = model.encoded, M = model.features, columns = model.columns;
    if (columns) {
        fill(out, 0, 4 * columns);
        add_product(out, x, model.omega + layer * W * columns, W, columns);
    } else {
        copy(out, x, 4 * W);
    }
    if (model.feature_map == RELU) {
        for (i32 m = 0; m < M; m += 4)
            wasm_v128_store(out + m, add(wasm_f32x4_max(at(out + m), each(0)), each(model.floor)));
    } else if (model.feature_map == ELU) {
        for (i32 m = 0; m < M; m++) out[m] = (out[m] > 0 ? out[m] + 1 : (f32)exponential(out[m])) + model.floor;
    } else { // FAVOR+; ω is scaled so that |x| and |ωx| share a bound (features.py)
        v128_t squares = each(0);
        for (i32 w = 0; w < W; w += 4) squares = add(squares, mul(at(x + w), at(x + w)));
        f32 square = lanes(squares), bound = MAX(model.favor_bound, __builtin_sqrtf(square));
        for (i32 m = 0; m < columns; m++) bound = MAX(bound, __builtin_fabsf(out[m]));
        f32 norm = model.favor_norm / bound, factor = model.favor_projection / bound, first = model.favor_offset;
        if (is_key) first -= square * norm * norm * 0.5f;
        for (i32 m = 0; m < columns; m++) {
            f32 projected = factor * out[m];
            out[m] = (f32)exponential(first + projected), out[columns + m] = (f32)exponential(first - projected);
        }
    }
}

#define GUARD 1e-30f // as in attention.py

INLINE void attend_columns(
    const i32 n, const f32 *fq, const f32 *fk, const f32 *v, v128_t decay, f32 *sums, v128_t scale, f32 *out) {
    v128_t value[4], y[4];
    UNROLL for (i32 j = 0; j < n; j++) value[j] = at(v + 4 * j), y[j] = each(0);
    for (i32 m = 0; m < model.features; m++, sums += model.head_width) {
        v128_t q = wasm_v128_load32_splat(fq + m), k = wasm_v128_load32_splat(fk + m);
        UNROLL for (i32 j = 0; j < n; j++) {
            v128_t sum = add(mul(at(sums + 4 * j), decay), mul(k, value[j]));
            wasm_v128_store(sums + 4 * j, sum);
            y[j] = add(y[j], mul(q, sum));
        }
    }
    UNROLL for (i32 j = 0; j < n; j++) wasm_v128_store(out + 4 * j, mul(y[j], scale));
}

// Add a token to the sums of a head, and write the head's output, (D,).
static void attend(const f32 *fq, const f32 *fk, const f32 *v, f32 decay, f32 *sums, f32 *out) {
    const i32 M = model.features, D = model.head_width;
    v128_t total = each(0), keep = each(decay);
    for (i32 m = 0; m < M; m += 4) {
        v128_t sum = add(mul(at(sums + M * D + m), keep), at(fk + m));
        wasm_v128_store(sums + M * D + m, sum);
        total = add(total, mul(at(fq + m), sum));
    }
    v128_t scale = each(1 / (lanes(total) + GUARD));
    i32 d = 0;
    for (; d + 16 <= D; d += 16) attend_columns(4, fq, fk, v + d, keep, sums + d, scale, out + d);
    for (; d < D; d += 4) attend_columns(1, fq, fk, v + d, keep, sums + d, scale, out + d);
}

// Add a token to the memory of a metric head, (N, D) and (N,), and write the head's output, (D,).
static void metric_attend(const f32 *qkv, f32 *keys, const f32 *read, f32 decay, f32 *out) {
    const i32 N = model.metric_features, D = model.head_width;
    const f32 *v = qkv + 2 * N;
    f32 total = 0;
    for (i32 m = 0; m < N; m++) {
        v128_t k = each(MAX(qkv[N + m], 1e-2f)), keep = each(decay); // MIN_FEATURE of metre.py
        for (i32 d = 0; d < D; d += 4) {
            f32 *sum = keys + m * D + d;
            wasm_v128_store(sum, add(mul(at(sum), keep), mul(k, at(v + d))));
        }
        keys[N * D + m] = keys[N * D + m] * decay + MAX(qkv[N + m], 1e-2f);
    }
    fill(out, 0, 4 * D);
    for (i32 m = 0; m < N; m++) {
        f32 q = MAX(qkv[m], 1e-2f);
        for (i32 d = 0; d < D; d += 4) wasm_v128_store(out + d, add(at(out + d), mul(each(q), at(read + m * D + d))));
        total += q * read[N * D + m];
    }
    v128_t scale = each(1 / (total + GUARD));
    for (i32 d = 0; d < D; d += 4) wasm_v128_store(out + d, mul(at(out + d), scale));
}

static i32 block_size(void) { // floats of a layer's part of a row of the metric memory
    return model.metric_features * (model.head_width + 1);
}

// Return the block of a row that can be written to: its own, a fresh one, or a copy of a shared one.
static f32 *own_block(Sequence *s, i32 row) {
    const uintptr_t before = (uintptr_t)s->blocks[row];
    if (before && !(before & 1)) return s->blocks[row];
    f32 *fresh = model.free_blocks[--model.free_count];
    const i32 bytes = 4 * model.layers * block_size();
    if (before) copy(fresh, (f32 *)(before - 1), bytes);
    else fill(fresh, 0, bytes);
    return s->blocks[row] = fresh;
}

// ---------------------------------------------------------------------------------------------- a step

// Take an item's token: move its sequence's time, and write the embedding and the places in the metric memory.
static void begin_item(const Item *item, i32 number, i32 *query_place, i32 *key_place) {
    Sequence *s = item->sequence;
    const i32 before = s->tick, token = item->token, width = model.width;
    if (model.step_ticks) {
        if (model.tick[token] >= 0)
            s->tick = (before / model.step_ticks + model.steps[token]) * model.step_ticks + model.tick[token];
        if (model.goal_of[token]) s->goal = model.goal_of[token];
    }
    *query_place = model.musical ? s->tick : s->position;
    *key_place = model.musical ? before : s->position;
    f32 *x = model.x + number * width;
    fill(x, 0, 4 * width);
    add_row(model.embedding, token + 1, x, 1);
    add_row(model.goals, s->goal, x, 1);
    if (model.level.codes && item->strength > 0) {
        add_guess(model.planned, item->planned, item->planned_level, x, item->strength);
        add_guess(model.matched, item->matched, item->matched_level + model.planned_levels, x, item->strength);
    }
    for (i32 c = 0; c < width; c++) x[c] *= model.root_width;
    if (model.position == LEARNED) {
        for (i32 c = 0; c < width; c++) x[c] += model.gains[s->position * width + c];
    } else if (model.position == WAVES) {
        for (i32 c = 0; c < width; c++) {
            f64 turns = s->position * model.frequencies[c / 2], cosine, sine;
            wave(turns - __builtin_floor(turns), &cosine, &sine);
            x[c] += (f32)(c % 2 ? cosine : sine);
        }
    } else if (model.position == CONVOLUTION) {
        draw_ring(s, s->position + model.taps);
    }
    for (i32 h = 0; h < model.metric_heads; h++) {
        const i32 period = model.period[h], key = model.first_row[h] + before % period, at = number * model.metric_heads + h;
        const i32 query = model.first_row[h] + s->tick % period;
        model.key_decay[at] = power(model.ratio[h], before / period - s->newest[key]);
        s->newest[key] = before / period;
        model.key_block[at] = own_block(s, key);
        model.query_block[at] = (f32 *)((uintptr_t)s->blocks[query] & ~(uintptr_t)1);
    }
    s->position++;
}

// Write the output of all heads of a layer for one item.
static void attention(const Item *item, i32 number, i32 layer) {
    const i32 H = model.heads, D = model.head_width, M = model.features;
    const f32 *qkv = model.wide + number * model.qkv.outputs, *code = model.code + number * code_size();
    f32 *out = model.found + number * model.output.given, encoded[model.encoded], fq[M], fk[M];
    f32 *sums = item->sequence->sums + layer * H * (M * D + M);
    for (i32 h = 0; h < H; h++, out += D, sums += M * D + M) {
        encode(item->sequence, layer, 0, h, code, qkv + h * D, encoded);
        feature(layer, 0, encoded, fq);
        encode(item->sequence, layer, 1, h, code, qkv + (H + h) * D, encoded);
        feature(layer, 1, encoded, fk);
        attend(fq, fk, qkv + (2 * H + h) * D, model.decay[h], sums, out);
    }
    qkv += 3 * H * D;
    for (i32 h = 0; h < model.metric_heads; h++, out += D, qkv += 2 * model.metric_features + D) {
        const i32 at = number * model.metric_heads + h;
        const f32 *read = model.query_block[at] ? model.query_block[at] + layer * block_size() : model.zeros;
        metric_attend(qkv, model.key_block[at] + layer * block_size(), read, model.key_decay[at], out);
    }
}

static void add_to_x(i32 count, const f32 *branch) {
    for (i32 c = 0; c < count * model.width; c += 4) wasm_v128_store(model.x + c, add(at(model.x + c), at(branch + c)));
}

// Append the tokens of items to their sequences, in order, and write the logits after each, (count, V).
EXPORT(advance) void advance(i32 count, const Item *items) {
    const i32 width = model.width, pre = model.pre_norm;
    i32 query[count], key[count];
    f32 *normed = model.found, *branch = model.wide, *x = model.x;
    for (i32 i = 0; i < count; i++) begin_item(items + i, i, query + i, key + i);
    for (i32 layer = 0; layer < model.layers; layer++) {
        const f32 *norms = model.norms + layer * 4 * width;
        if (pre) normalise(norms, count, x, normed);
        quantise(&model.qkv, count, pre ? normed : x, width);
        product(&model.qkv, layer, count, model.wide);
        for (i32 i = 0; i < count; i++) {
            const i32 forms = model.position == SINE || model.position == CONVOLUTION || model.position == ROTATION;
            if (forms && (!layer || model.slots > 1))
                form_code(items[i].sequence, model.slots > 1 ? layer : 0, query[i], key[i], model.code + i * code_size());
            attention(items + i, i, layer);
        }
        quantise(&model.output, count, model.found, model.output.given);
        product(&model.output, layer, count, branch);
        add_to_x(count, branch);
        if (pre) normalise(norms + 2 * width, count, x, normed);
        else normalise(norms, count, x, x);
        quantise(&model.inner, count, pre ? normed : x, width);
        product(&model.inner, layer, count, model.hidden);
        const i32 size = count * model.inner.outputs;
        if (model.activation == RELU)
            for (i32 i = 0; i < size; i += 4)
                wasm_v128_store(model.hidden + i, wasm_f32x4_max(at(model.hidden + i), each(0)));
        else
            for (i32 i = 0; i < size; i++) model.hidden[i] = gelu(model.hidden[i]);
        quantise(&model.outer, count, model.hidden, model.inner.outputs);
        product(&model.outer, layer, count, branch);
        add_to_x(count, branch);
        if (!pre) normalise(norms + 2 * width, count, x, x);
    }
    if (pre) normalise(model.norms + model.layers * 4 * width, count, x, normed);
    quantise(&model.head, count, pre ? normed : x, width);
    product(&model.head, 0, count, model.logits);
    for (i32 i = 0; i < count; i++)
        copy(items[i].sequence->logits, model.logits + i * model.head.outputs, 4 * model.vocabulary);
}
