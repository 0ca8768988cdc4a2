"""Measure the languages on whole data sets: python -m tests.tools.measure.tokens POP909 GROOVE.

Round trips of every piece, in both directions, and tokenizing speed against MidiTok's REMI on the same files.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tests.tokenization.groove.cases import golden_cases, golden_tokens, golden_trio
from tests.tokenization.quantised import quantised
from tokenization.analysis.beats import on_four_four, without_rest_in_front
from tokenization.analysis.chords import recognise
from tokenization.groove.language import trios
from tokenization.language import Language, language
from tokenization.midi.reading import read_midi
from tokenization.score import Score, Track, sustained
from training.data.sources.pop909 import read_song


def golden() -> tuple[int, int]:
    """Return how many of the reference's token strings ours equal, and how many there are."""
    groove, equal, total = language("groove"), 0, 0
    for case in golden_cases():
        ours = [groove.vocabulary.names[i] for i in groove.encode(golden_trio(case["notes"])).ids]
        theirs = golden_tokens(case)
        equal += sum(a == b for a, b in zip(ours, theirs, strict=False))
        total += len(theirs)
    return equal, total


def round_trips(speaker: Language, scores: Iterator[Score]) -> Counter[str]:
    """Count pieces, notes, tokens, inexact round trips, and what spelling cost."""
    counts: Counter[str] = Counter()
    for score in scores:
        encoded = speaker.encode(score)
        decoded = speaker.decode(encoded.ids, encoded.setting)
        counts["pieces"] += 1
        counts["notes in the files"] += len(score.notes)
        counts["notes in the tokens"] += encoded.notes
        counts["tokens"] += len(encoded.ids)
        counts["decode(encode(x)) ≠ quantise(x)"] += decoded != quantised(speaker, score)
        counts["encode(decode(t)) ≠ t"] += not np.array_equal(
            speaker.encode(decoded).ids, encoded.ids
        )
        counts.update(encoded.losses)
    return counts


def songs(folder: Path, spoken: str) -> Iterator[Score]:
    """Yield every song of POP909 on one piano, with its annotated chords."""
    remi = language(spoken)
    for song in sorted(path.parent for path in folder.rglob("beat_midi.txt")):
        yield remi.arrange(read_song(song))


def metres(scores: Iterator[Score], seen: Counter[str]) -> Iterator[Score]:
    """Yield scores, and count the pieces in which each metre occurs."""
    for score in scores:
        pairs = zip(score.meters.numerator.tolist(), score.meters.denominator.tolist(), strict=True)
        seen.update({f"pieces with bars of {n}/{d}" for n, d in pairs})
        yield score


def grooves(folder: Path) -> Iterator[Score]:
    """Yield every trio of every groove file."""
    for path in sorted(folder.rglob("*.mid")):
        yield from trios(read_midi(path).replace(beats_known=True))


def speeds(files: list[Path], rounds: int = 3) -> dict[str, list[float]]:
    """Return notes a second of each tokenizer, a number a round; reading the file is included."""
    from miditok import REMI, TokenizerConfig

    plain = REMI(TokenizerConfig(beat_res={(0, 16): 4}, num_velocities=24, use_tempos=True))
    chords = REMI(
        TokenizerConfig(beat_res={(0, 16): 4}, num_velocities=24, use_tempos=True, use_chords=True)
    )
    works: dict[str, Callable[[Path], object]] = {
        "ours, without chords": lambda path: _ours(path, chords=False),
        "MidiTok, without chords": plain,
        "ours, with chords": lambda path: _ours(path, chords=True),
        "MidiTok, with chords": chords,
    }
    notes = sum(len(read_midi(path).notes) for path in files)
    result: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            began = time.process_time()
            for path in files:
                work(path)
            result[name].append(notes / (time.process_time() - began))
    return result


def _ours(path: Path, *, chords: bool) -> object:
    """Read and spell a file by its own beats, as MidiTok does: it estimates none."""
    score = on_four_four(sustained(read_midi(path)).replace(beats_known=True))
    notes = score.notes.replace(track=np.zeros_like(score.notes.track)).sorted()
    score = without_rest_in_front(score.replace(notes=notes, tracks=(Track("Piano"),)))
    if chords:
        score = score.replace(markers=recognise(score))
    return language("remi").encode(score)


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pop909", type=Path)
    parser.add_argument("groove", type=Path)
    parser.add_argument("--files", type=int, default=100, help="of POP909, for the speed")
    arguments = parser.parse_args()
    print("golden groove tokens equal: {} of {}".format(*golden()))
    sets = (
        ("remi", songs(arguments.pop909, "remi")),
        ("groove", grooves(arguments.groove)),
    )
    for name, found in sets:
        print(f"\n{name}")
        seen: Counter[str] = Counter()
        counts = round_trips(language(name), metres(found, seen))
        for what, count in [*counts.items(), *sorted(seen.items())]:
            print(f"  {count:>10,}  {what}")
    files = sorted(arguments.pop909.rglob("[0-9][0-9][0-9].mid"))[: arguments.files]
    print(
        f"\nnotes a second of CPU time, {len(files)} files read and tokenized, best (deviation, n)"
    )
    for name, values in speeds(files).items():
        spread = statistics.stdev(values)
        print(f"  {name:36} {max(values):>10,.0f}  (± {spread:,.0f}, n = {len(values)})")


if __name__ == "__main__":
    main()
