"""Statistics of harmony, of the sounding pitches of some bars: scale, chords by beat, dissonance and spacing.

They hear a triad in each beat by itself; chords for users are recognised by hearing.py.
"""

from __future__ import annotations

import numpy as np

from tokenization.analysis.shares import entropy

SCALE = np.array([1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1], dtype=float)  # the major scale
SILENT = 128  # above all pitches
MAJOR, MINOR = (0, 4, 7), (0, 3, 7)
TRIADS = np.zeros((24, 12))  # the root of row r is r % 12
for _root in range(12):
    TRIADS[_root, [(_root + k) % 12 for k in MAJOR]] = 1
    TRIADS[12 + _root, [(_root + k) % 12 for k in MINOR]] = 1
ROTATIONS = np.array([np.roll(SCALE, key) for key in range(12)])


def harmony(sounding: np.ndarray, steps: int, lines: np.ndarray) -> dict[str, float]:
    """Return the statistics of sounding pitches, (T, 128) bool, of which some sounds, at `steps` per beat."""
    octaves = np.zeros((len(sounding), 132), dtype=bool)
    octaves[:, :128] = sounding
    classes: np.ndarray = np.any(octaves.reshape(len(sounding), 11, 12), axis=1)  # (T, 12)
    beats = -(-len(classes) // steps)
    padded = np.zeros((beats * steps, 12))
    padded[: len(classes)] = classes
    heard = padded.reshape(beats, steps, 12).mean(axis=1)  # (K, 12)
    total = heard.sum(axis=0)
    share = total / total.sum()
    scales = np.sort(ROTATIONS @ share)
    known = share[share > 0]
    found = {
        "harmony: class entropy": float(-(known @ np.log2(known))),
        "harmony: classes": float(len(known)),
        "harmony: in scale": float(scales[-1]),
        "harmony: scale margin": float(scales[-1] - scales[-2]),
        "harmony: commonest class": float(share.max()),
    }
    found |= _chords(heard, sounding, steps, lines)
    return found | _intervals(classes, sounding)


def _chords(
    heard: np.ndarray, sounding: np.ndarray, steps: int, lines: np.ndarray
) -> dict[str, float]:
    """Return the statistics of the triads heard in the beats, and of how alike beats and bars are."""
    size = np.linalg.norm(heard, axis=1)
    unit = heard / np.maximum(size, 1e-9)[:, None]
    found: dict[str, float] = {}
    for name, lag in (
        ("1 beat", 1),
        ("2 beats", 2),
        ("4 beats", 4),
        ("8 beats", 8),
        ("16 beats", 16),
    ):
        both = (size[lag:] > 0) & (size[:-lag] > 0)
        like = (unit[lag:] * unit[:-lag]).sum(axis=1)[both]
        found[f"harmony: like {name} ago"] = float(like.mean()) if len(like) else np.nan
        if lag == 1 and len(like):
            found["harmony: likeness deviation"] = float(like.std())
            found["harmony: beats that stay"] = float((like > 0.999).mean())
    full = heard[size > 0]
    weight = full.sum(axis=1)
    fits = full @ TRIADS.T / weight[:, None]
    best = fits.argmax(axis=1)
    fit, root = fits.max(axis=1), best % 12
    rows = np.arange(len(root))
    lowest = np.full(len(heard) * steps, SILENT)
    lowest[: len(sounding)] = _lowest(sounding)
    above = (lowest.reshape(-1, steps).min(axis=1)[size > 0] - root) % 12
    changed = np.flatnonzero(np.diff(best) != 0)
    motion = (root[changed + 1] - root[changed]) % 12
    beat_lines = np.isin(np.flatnonzero(size > 0) * steps, lines)[1:]
    found |= {
        "harmony: chord fit": float(fit.mean()),
        "harmony: chord fit deviation": float(fit.std()),
        "harmony: worst chord fit": float(np.quantile(fit, 0.1)),
        "harmony: minor chords": float((best >= 12).mean()),
        "harmony: chord changes": float((np.diff(best) != 0).mean()) if len(best) > 1 else np.nan,
        "harmony: different chords": float(len(np.unique(best))),
        "harmony: root entropy": entropy(root),
        "harmony: commonest root": float(np.bincount(root).max() / len(root)),
        "harmony: seventh": float((full[rows, (root + 10) % 12] / weight).mean()),
        "harmony: major seventh": float((full[rows, (root + 11) % 12] / weight).mean()),
        "harmony: ninth": float((full[rows, (root + 2) % 12] / weight).mean()),
        "harmony: fourth": float((full[rows, (root + 5) % 12] / weight).mean()),
        "harmony: classes in a beat": float((full > 0).sum(axis=1).mean()),
        "harmony: classes in a beat deviation": float((full > 0).sum(axis=1).std()),
        "harmony: bass on root": float((above == 0).mean()),
        "harmony: bass on third": float(((above == 3) | (above == 4)).mean()),
        "harmony: bass on fifth": float((above == 7).mean()),
        "harmony: changes on the line": float(beat_lines[changed].mean())
        if len(changed)
        else np.nan,
    }
    names = {"fifths": (5, 7), "seconds": (1, 2, 10, 11), "thirds": (3, 4, 8, 9), "same root": (0,)}
    for name, some in names.items():
        found[f"harmony: roots by {name}"] = (
            float(np.isin(motion, some).mean()) if len(motion) else np.nan
        )
    return found


def _intervals(classes: np.ndarray, sounding: np.ndarray) -> dict[str, float]:
    """Return what pitch classes sound together, and above the lowest pitch."""
    pairs = np.array(
        [(classes & np.roll(classes, k, axis=1)).sum() for k in range(1, 7)], dtype=float
    )
    pairs[5] /= 2  # each tritone is found twice
    found = {"harmony: intervals at once": float(pairs.sum() / len(classes))}
    if pairs.sum():
        names = (
            "seconds and sevenths",
            "whole tones",
            "minor thirds",
            "major thirds",
            "fifths",
            "tritones",
        )
        found |= {
            f"harmony: {name}": float(count / pairs.sum())
            for name, count in zip(names, pairs, strict=True)
        }
    lowest, some = _lowest(sounding), sounding.any(axis=1)
    above = np.zeros(12)
    step, pitch = np.nonzero(sounding)
    np.add.at(above, (pitch - lowest[step]) % 12, 1)
    return found | {
        f"harmony: {k} above the bass": float(above[k] / above.sum())
        for k in range(12)
        if some.any()
    }


def _lowest(sounding: np.ndarray) -> np.ndarray:
    """Return the lowest pitch at each step; SILENT where none sounds: (T,)."""
    return np.where(sounding.any(axis=1), sounding.argmax(axis=1), SILENT)


def spacing(pitch: np.ndarray, begins: np.ndarray) -> dict[str, float]:
    """Return how notes struck together are spaced: pitches in order of onset and pitch, (P,), from each of `begins`."""
    count = np.diff(np.append(begins, len(pitch)))
    chord = np.repeat(np.arange(len(count)), count)
    gap = np.diff(pitch)[np.diff(chord) == 0]
    extent = np.maximum.reduceat(pitch, begins) - np.minimum.reduceat(pitch, begins)
    distinct = len(np.unique(chord * 12 + pitch % 12))
    found = {
        "harmony: notes at onset": float(count.mean()),
        "harmony: notes at onset deviation": float(count.std()),
        "harmony: doubled": 1 - distinct / len(pitch),
        "harmony: extent": float(extent[count > 1].mean()) if (count > 1).any() else np.nan,
        **{f"harmony: {k} struck": float((count == k).mean()) for k in (1, 2, 3, 4)},
        "harmony: five or more struck": float((count > 4).mean()),
    }
    if len(gap):
        found |= {
            "harmony: spacing": float(gap.mean()),
            "harmony: struck seconds": float(np.isin(gap, (1, 2)).mean()),
            "harmony: struck thirds": float(np.isin(gap, (3, 4)).mean()),
            "harmony: struck octaves": float((gap == 12).mean()),
            "harmony: wide gaps": float((gap > 12).mean()),
        }
    return found
