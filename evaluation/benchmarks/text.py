"""Text to learn a language model from: any folder of text files, as bytes or words, or the files of WikiText-103."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

UNITS = ("bytes", "words")
UNKNOWN, END_OF_LINE = "<unk>", "<eos>"
HELD_OUT = 0.1  # of the text, for the test, where files have no split of their own
_WIKITEXT = {
    "train": "wiki.train.tokens",
    "validation": "wiki.valid.tokens",
    "test": "wiki.test.tokens",
}
_KINDS = {".txt", ".md", ".rst", ".tokens", ".py", ".tex", ".text", ""}
MOST_WORDS = 30_000


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The ids of a text to train on and of one to test with."""

    train: np.ndarray
    test: np.ndarray
    vocabulary: int
    files: int
    about: str


def read_corpus(folder: Path, unit: str, *, most_words: int = MOST_WORDS) -> Corpus:
    """Read a folder: as the split of WikiText-103, where its three files are there, else by a hash of the names."""
    if unit not in UNITS:
        raise ValueError(f"unit is {unit!r}; it must be one of {', '.join(UNITS)}")
    own = {split: folder / name for split, name in _WIKITEXT.items()}
    if all(file.is_file() for file in own.values()):
        texts = {split: own[split].read_bytes() for split in ("train", "test")}
        return _corpus(texts, unit, 2, "WikiText-103's own split", None)
    files = sorted(f for f in folder.rglob("*") if f.is_file() and f.suffix.lower() in _KINDS)
    parts: dict[str, list[bytes]] = {"train": [], "test": []}
    for file in files:
        data = file.read_bytes()
        if b"\0" in data[:4096] or not data.strip():
            continue  # no text
        parts[_split(file.relative_to(folder).as_posix())].append(data)
    if len(parts["train"]) + len(parts["test"]) < 20:  # so few are cut by place
        whole = b"\n".join(parts["train"] + parts["test"])
        cut = int(len(whole) * (1 - HELD_OUT))
        texts, about = {"train": whole[:cut], "test": whole[cut:]}, "the last tenth is the test"
    else:
        texts = {split: b"\n".join(found) for split, found in parts.items()}
        about = "a tenth of the files, by a hash of their names, is the test"
    count = len(parts["train"]) + len(parts["test"])
    if len(texts["train"]) < 10_000:
        raise ValueError(
            f"{folder} holds {len(texts['train']):,} bytes of text to train on; a folder of text files "
            f"({', '.join(sorted(_KINDS - {''}))}) with 10,000 or more is wanted"
        )
    return _corpus(texts, unit, count, about, most_words)


def _corpus(texts: dict[str, bytes], unit: str, files: int, about: str, most: int | None) -> Corpus:
    if unit == "bytes":
        ids = {split: np.frombuffer(text, dtype=np.uint8) for split, text in texts.items()}
        return Corpus(**ids, vocabulary=256, files=files, about=about)
    words = {split: list(_words(text)) for split, text in texts.items()}
    counted = Counter(words["train"]).most_common(most)
    names = [UNKNOWN, *(word for word, _ in counted if word != UNKNOWN)]
    number = {word: place for place, word in enumerate(names)}
    ids = {
        split: np.array([number.get(word, 0) for word in found], dtype=np.int32)
        for split, found in words.items()
    }
    return Corpus(**ids, vocabulary=len(names), files=files, about=about)


def _words(text: bytes) -> list[str]:
    lines = text.decode(errors="replace").splitlines()
    return [word for line in lines for word in [*line.split(), END_OF_LINE]]


def _split(name: str) -> str:
    drawn = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    return "test" if drawn < HELD_OUT else "train"
