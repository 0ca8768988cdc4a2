"""What it is worth to tell every position which goal stands (musicgen/model/performer.py): how songs end.

OMP_NUM_THREADS=1 python -m tests.tools.measure.goals --data data/pop909 --seeds 3 -o build/goals

A small model learns the ends of songs, which count down their last bars, from scratch and by Muon; and the same with
every position told, from the same seed and over the same music. Then either is given bars of held-out songs up to
shortly before their ends, and is asked to end there. Run again, it goes on where it was interrupted.

python -m tests.tools.measure.goals --data data/pop909 --model pop-piano-2

asks a model that is there instead, and prints how the songs themselves end beside it.
"""

import argparse
import json
import shutil
import time
from pathlib import Path

import numpy as np

from evaluation.metrics.form import SIGNS, last_bar, signs
from evaluation.study.form_and_infilling import held_out_piece
from musicgen.common.intervals import mean_interval
from musicgen.continuation import Continuation, together
from musicgen.generation.likelihood import position_losses
from musicgen.loading import load
from musicgen.model.performer import Performer
from musicgen.options import Options
from musicgen.pieces import Piece
from musicgen.playable import Playable
from tokenization.language import COUNTED
from tokenization.prepared import Prepared
from tokenization.remi.goals import GOAL_START, bar_offsets, ending, from_bar
from tokenization.wording import markdown
from training.config import find, read
from training.data.batches import Batches
from training.devices import start_fabric
from training.loop import Progress, Run

SMALL = (
    "start=null", "model.preset=tiny", "model.layers=4", "model.width=64", "model.feedforward=256",
    "model.features={name: relu, features: 64}", "model.chunk=64", "model.dropout=0", "model.horizons=[8, 512]",
    "model.position=none", "model.metre={bars: [1, 1, 2, 4], remembers: [2, 8, 8, 8]}",
    "data.length=512", "data.batch=4", "data.endings=0.8", "data.gaps=0",
    "device={accelerator: cpu, precision: 32-true}",
    "optimiser.learning_rate=3e-3", "optimiser.warmup=30", "validation.every=1000000", "validation.sequences=2",
    "validation.length=528", "validation.samples=0", "keep=1",
)  # fmt: skip
WAYS = {"said once a bar": "model.goals=null", "told to every position": "model.goals=true"}
PROMPT, WRITTEN = 16, 12  # bars
TAKES = 3  # of each song
LOSS = "loss of the last bar"


class Quiet:
    """A listener that says nothing."""

    def stepped(self, step: int, steps: int) -> None:
        """Do nothing."""

    def progress(self, progress: Progress) -> None:
        """Do nothing."""

    def validated(self, model: Performer, step: int) -> None:
        """Do nothing."""


def measure(
    way: str, seed: int, steps: int, data: str, folder: Path, pieces: int
) -> dict[str, float]:
    """Train one model, and return what its ends are like."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{list(WAYS).index(way)}-{seed}.json"
    if not path.exists():
        began, run = time.process_time(), folder / f"run-{seed}"
        shutil.rmtree(run, ignore_errors=True)
        own = [f"data.folder={data}", f"optimiser.steps={steps}", f"seed={seed}", f"run={run}"]
        config = read(find("models/pop-piano-2-fourth"), [*SMALL, *own, WAYS[way]])
        Run(config, start_fabric(config.device), Batches(config.data, config.seed)).fit(Quiet())
        model = load(run / "model")
        songs = held_out(data, model, pieces)
        found = {
            LOSS: float(np.mean([last_bar_loss(model, song) for song in songs])),
            **drawn(model, songs),
        }
        path.write_text(json.dumps(found))
        shutil.rmtree(run)
        print(f"{way}, seed {seed}: {found}, {time.process_time() - began:.0f} s", flush=True)
    return json.loads(path.read_text())


def held_out(data: str, model: Playable, most: int) -> list[Piece]:
    """Return songs of the validation and the test split that are long enough to be asked for an end."""
    prepared = Prepared.open(data)
    rows = np.concatenate([prepared.rows("validation"), prepared.rows("test")])
    songs = [held_out_piece(data, int(row), model.language) for row in rows[: 2 * most]]
    return [song for song in songs if last_bar(song.score) + 1 > PROMPT + WRITTEN][:most]


def last_bar_loss(model: Playable, song: Piece) -> float:
    """Return the nats a token of a song's true last bar and end, given the last bars before it, counted down."""
    ids = np.asarray(song.encoded.ids, dtype=np.int64)
    lines = bar_offsets(ids)
    ids = np.concatenate([ids[:1], from_bar(ids, int(lines[max(len(lines) - 1 - COUNTED, 0)]))])
    counted = ending(ids, COUNTED)
    begun = int(np.flatnonzero(counted >= GOAL_START)[-1]) + 1
    return float(position_losses(model.performer, counted, 0)[begun - 1 :].mean())


def drawn(model: Playable, songs: list[Piece]) -> dict[str, float]:
    """Return the share of drawn ends that show each sign."""
    works = [
        Continuation(
            model,
            song.prompt(PROMPT),
            Options(bars=WRITTEN, seed=seed, ends=True, variations=TAKES),
        )
        for seed, song in enumerate(songs)
    ]
    for _ in together(works):
        pass
    last, silent = PROMPT + WRITTEN - 1, dict.fromkeys(SIGNS, False)
    found = [signs(take.score, last) or silent for work in works for take in work.takes()]
    return {sign: float(np.mean([one[sign] for one in found])) for sign in SIGNS}


def table_of(model: Playable, data: str, pieces: int) -> str:
    """Return how a model ends songs, beside how they do."""
    songs = held_out(data, model, pieces)
    ends, loss = drawn(model, songs), np.mean([last_bar_loss(model, song) for song in songs])
    own = [signs(song.score, last_bar(song.score)) or dict.fromkeys(SIGNS, False) for song in songs]
    lines = [["sign of an end", model.name, f"the {len(songs)} songs"]]
    for sign in SIGNS:
        real = np.mean([one[sign] for one in own])
        lines.append([sign, f"{ends[sign]:.2f}", f"{real:.2f}"])
    return markdown([*lines, [LOSS, f"{loss:.3f}", ""]])


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", required=True, help="a prepared set of remi-2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400, help="of 2,048 tokens")
    parser.add_argument("--pieces", type=int, default=40)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/goals"))
    parser.add_argument("--model", help="a model that is there, by name or folder")
    given = parser.parse_args()
    if given.model:
        print(table_of(load(given.model), given.data, given.pieces))
        return
    found = {
        way: [
            measure(way, seed, given.steps, given.data, given.output, given.pieces)
            for seed in range(1, given.seeds + 1)
        ]
        for way in WAYS
    }
    once, told = found.values()
    lines = [["", *WAYS, "change"]]
    for name in (LOSS, *SIGNS):
        changes = [b[name] - a[name] for a, b in zip(once, told, strict=True)]
        columns = [[one[name] for one in once], [one[name] for one in told], changes]
        lines.append([name, *(_of(values) for values in columns)])
    print(markdown(lines))


def _of(values: list[float]) -> str:
    mean, interval = mean_interval(values)
    return f"{mean:.3f}" if interval is None else f"{mean:.3f} ± {interval:.3f}"


if __name__ == "__main__":
    main()
