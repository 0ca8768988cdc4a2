// Types, and functions whose rounding a library could choose: the same bits on every machine.

#pragma once

#include <stdint.h>
#include <wasm_simd128.h>

typedef int8_t i8;
typedef uint8_t u8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint64_t u64;
typedef float f32;
typedef double f64;

#define EXPORT(name) __attribute__((export_name(#name)))
#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define UNROLL _Pragma("clang loop unroll(full)")
#define copy __builtin_memcpy
#define fill __builtin_memset

static f64 power_of_two(i32 n) { // 2^n for −1022 ≤ n ≤ 1023
    u64 bits = (u64)(n + 1023) << 52;
    f64 x;
    copy(&x, &bits, 8);
    return x;
}

static const f64 inverse_factorial[18] = {
    1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800,
    1. / 479001600, 1. / 6227020800, 1. / 87178291200, 1. / 1307674368000, 1. / 20922789888000, 1. / 355687428096000};

static f64 exponential(f64 x) {
    if (!(x > -745)) return x != x ? x : 0;
    if (x > 709) return __builtin_inf();
    f64 n = __builtin_nearbyint(x * 1.4426950408889634);
    f64 r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10, sum = 0;
    for (i32 i = 13; i >= 0; i--) sum = sum * r + inverse_factorial[i]; // |r| ≤ ln 2 / 2
    i32 half = (i32)n / 2;
    return sum * power_of_two(half) * power_of_two((i32)n - half);
}

static f64 logarithm(f64 x) { // of a normal positive number
    u64 bits;
    copy(&bits, &x, 8);
    i32 n = (i32)(bits >> 52) - 1023;
    f64 m = x / power_of_two(n);
    if (m > 1.4142135623730951) m /= 2, n++;
    f64 s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (i32 i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / i; // of 2 artanh(s)
    return n * 0.6931471805599453 + 2 * s * sum;
}

static void wave(f64 turns, f64 *cosine, f64 *sine) { // of an angle in turns
    f64 quarter = __builtin_nearbyint(turns * 4), r = (turns - quarter / 4) * 6.283185307179586, square = r * r;
    f64 c = 0, s = 0;
    for (i32 i = 16; i >= 0; i -= 2) c = inverse_factorial[i] - c * square, s = inverse_factorial[i + 1] - s * square;
    s *= r;
    i32 turn = (i32)(quarter - 4 * __builtin_floor(quarter / 4));
    *cosine = turn == 0 ? c : turn == 1 ? -s : turn == 2 ? -c : s;
    *sine = turn == 0 ? s : turn == 1 ? c : turn == 2 ? -s : -c;
}

static f32 gelu(f32 x) { // erf by Abramowitz and Stegun 1964, 7.1.26: within 1.5e-7
    f64 y = __builtin_fabs((f64)x) * 0.7071067811865476, t = 1 / (1 + 0.3275911 * y);
    f64 sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    f64 erf = 1 - sum * exponential(-y * y);
    return (f32)(0.5 * x * (1 + (x < 0 ? -erf : erf)));
}

static f32 power(f64 ratio, i32 n) { // at least 1e-20, as in metre.py
    f64 result = 1, factor = n < 0 ? 1 / ratio : ratio;
    for (u64 bits = n < 0 ? -(i64)n : n; bits; bits >>= 1, factor *= factor)
        if (bits & 1) result *= factor;
    return (f32)MAX(result, 1e-20);
}

// Replace numbers by their exponentials or logarithms: for constants that the host derives from weights.
EXPORT(exponentials) void exponentials(f64 *x, i32 count) {
    for (i32 i = 0; i < count; i++) x[i] = exponential(x[i]);
}

EXPORT(logarithms) void logarithms(f64 *x, i32 count) {
    for (i32 i = 0; i < count; i++) x[i] = logarithm(x[i]);
}

static u64 hashed(u64 x) { // SplitMix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

// Write standard normal numbers, scaled; those of a seed and an even index are the same in any window (Box and Muller).
EXPORT(normals) void normals(u64 seed, u64 index, f32 *out, i32 count, f32 scale) {
    for (i32 i = 0; i < count; i += 2) {
        u64 bits = hashed(seed + (index + i + 2) * 0x9E3779B97F4A7C15);
        f64 length = __builtin_sqrt(-2 * logarithm(((f64)(bits >> 32) + 1) / 4294967296.0)), cosine, sine;
        wave((f64)(bits & 0xFFFFFFFF) / 4294967296.0, &cosine, &sine);
        out[i] = (f32)(length * cosine) * scale;
        if (i + 1 < count) out[i + 1] = (f32)(length * sine) * scale;
    }
}
