"""What `musicgen continue` and `musicgen generate` have in common: their options, and writing what they made."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.progress import progress_bar

if TYPE_CHECKING:
    from app.models import Model
    from app.service import Prompt, Take


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what both commands take."""
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("."),
        help="folder to write to (default: the current one); files there are never overwritten",
    )  # fmt: skip
    parser.add_argument(
        "--model", default="pop-piano", metavar="NAME|FOLDER",
        help="a model of `musicgen models`, a folder, or untrained:tiny[:groove] (default: pop-piano)",
    )  # fmt: skip
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--bars", type=int, default=16, metavar="N", help="bars to write (default: 16)"
    )
    length.add_argument("--tokens", type=int, metavar="N", help="tokens to write, instead of bars")
    parser.add_argument(
        "--variations", type=int, default=1, metavar="K", help="so many at once (default: 1)"
    )
    parser.add_argument(
        "--temperature", type=float, default=0.95, metavar="T", help="freedom (default: 0.95)"
    )
    parser.add_argument(
        "--top-p", type=float, default=0.95, metavar="P", help="nucleus (default: 0.95)"
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="only the K likeliest tokens")
    parser.add_argument(
        "--min-p",
        type=float,
        default=0.0,
        metavar="P",
        help="only tokens P times as likely as the likeliest",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="the same seed, the same music (default: 0)"
    )
    parser.add_argument(
        "--may-end", action="store_true", help="let the music end before that length"
    )
    parser.add_argument(
        "--device", default="auto", metavar="auto|cpu|cuda|mps", help="(default: auto)"
    )
    parser.add_argument("--audio", action="store_true", help="write a WAV beside each MIDI file")
    parser.add_argument("--soundfont", type=Path, metavar="FILE.sf2", help="for the WAVs")
    output.add_json(parser)


def make(arguments: argparse.Namespace, model: Model, prompt: Prompt, name: str) -> None:
    """Generate, write the files, and say what was written."""
    from app.service import Continuation, Wish
    from musicgen.sampling import Sampling

    wish = Wish(
        bars=_positive(arguments.bars, "--bars"),
        tokens=None if arguments.tokens is None else _positive(arguments.tokens, "--tokens"),
        variations=arguments.variations,
        seed=arguments.seed,
        sampling=Sampling(
            temperature=arguments.temperature,
            top_p=arguments.top_p,
            top_k=arguments.top_k,
            min_p=arguments.min_p,
        ),
        may_end=arguments.may_end,
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    work = Continuation(model, prompt, wish)
    with progress_bar(f"{model.name}: tokens") as show:
        for done in work:
            show(done, max(done, wish.tokens or round(wish.bars * _tokens_a_bar(prompt))))
    seconds = time.perf_counter() - began
    takes = work.takes()
    if not any(len(take.continuation.notes) for take in takes):
        raise ValueError(
            f"{model.name} wrote no note; more --bars, another --seed or a higher --temperature may help"
        )
    results = [
        _write(arguments, take, name, number, prompt)
        for number, take in zip(_free(arguments.output, name, len(takes)), takes, strict=True)
        if len(take.continuation.notes)
    ]
    for result in results:
        result.update(seconds=round(seconds, 3), seed=arguments.seed, model=model.name)
    if arguments.json:
        output.write_json(results)
        return
    for result in results:
        output.write(result["midi"])
    tokens = sum(take.tokens for take in takes)
    output.remark(
        [f"{tokens} tokens in {seconds:.1f} s: {tokens / max(seconds, 1e-9):.0f} a second"]
    )


def _write(
    arguments: argparse.Namespace, take: Take, name: str, number: int, prompt: Prompt
) -> dict[str, Any]:
    """Write one take: the continuation, with a prompt also the whole, and what is known of them."""
    from app.audio import render
    from app.service import midi_of

    scores = {f"{name}.cont_{number}": take.continuation}
    if prompt.bars:
        scores[f"{name}.prompt_cont_{number}"] = take.whole
    for stem, score in scores.items():
        midi = midi_of(score, take.provenance)
        (arguments.output / f"{stem}.mid").write_bytes(midi)
        if arguments.audio:
            (arguments.output / f"{stem}.wav").write_bytes(render(midi, arguments.soundfont))
    stem = next(iter(scores))
    facts = {**take.provenance, "tokens": take.tokens, "files": [f"{s}.mid" for s in scores]}
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (arguments.output / f"{stem}.json").write_text(text, encoding="utf-8")
    return {"midi": str(arguments.output / f"{stem}.mid"), "tokens": take.tokens}


def _tokens_a_bar(prompt: Prompt) -> float:
    """Return about how many tokens a bar takes, for the progress bar."""
    return len(prompt.ids) / prompt.bars if prompt.bars else 60.0


def _free(folder: Path, name: str, count: int) -> list[int]:
    """Return numbers for new files behind all that are there."""
    taken = [-1]
    for path in folder.glob(f"{_escaped(name)}.cont_*.mid"):
        number = path.stem.rpartition("_")[2]
        taken.append(int(number) if number.isdigit() else -1)
    first = max(taken) + 1
    return list(range(first, first + count))


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _positive(value: int, option: str) -> int:
    if value < 1:
        raise ValueError(f"{option} is {value}; it is 1 or more")
    return value
