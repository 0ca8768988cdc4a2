"""Read data sets from files, in the formats of their authors.

Nothing is unpickled and nothing downloaded. Each reader returns the sequences and labels of the split train or test;
the two sequences of a pair follow each other.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.benchmarks.training import Examples

# A corpus for language models: any folder of text files, as bytes or words, or the files of WikiText-103.

UNKNOWN, END_OF_LINE = "<unk>", "<eos>"
HELD_OUT = 0.1  # fraction of the text for the test, if there is no given split
_WIKITEXT = {
    "train": "wiki.train.tokens",
    "validation": "wiki.valid.tokens",
    "test": "wiki.test.tokens",
}
_KINDS = {".txt", ".md", ".rst", ".tokens", ".py", ".tex", ".text", ""}
MOST_WORDS = 30_000


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The ids of a text for training and of one for the test."""

    train: np.ndarray
    test: np.ndarray
    vocabulary: int
    about: str = ""  # how many files, and how they are split


def read_corpus(folder: Path, unit: str, *, most_words: int = MOST_WORDS) -> Corpus:
    """Read the text files of a folder; split as WikiText-103 if its three files exist, else by a hash of the names."""
    own = {split: folder / name for split, name in _WIKITEXT.items()}
    if all(file.is_file() for file in own.values()):
        texts = {split: own[split].read_bytes() for split in ("train", "test")}
        return _corpus(texts, unit, "WikiText-103 in its own split", None)
    files = sorted(f for f in folder.rglob("*") if f.is_file() and f.suffix.lower() in _KINDS)
    parts: dict[str, list[bytes]] = {"train": [], "test": []}
    for file in files:
        data = file.read_bytes()
        if b"\0" in data[:4096] or not data.strip():
            continue  # not a text
        parts[_split(file.relative_to(folder).as_posix())].append(data)
    if len(parts["train"]) + len(parts["test"]) < 20:  # too few files for a split by file
        whole = b"\n".join(parts["train"] + parts["test"])
        cut = int(len(whole) * (1 - HELD_OUT))
        texts, about = {"train": whole[:cut], "test": whole[cut:]}, "whose last tenth is the test,"
    else:
        texts = {split: b"\n".join(found) for split, found in parts.items()}
        about = "of which a tenth, by a hash of their names, is the test,"
    count = len(parts["train"]) + len(parts["test"])
    if len(texts["train"]) < 10_000:
        raise ValueError(
            f"{folder} has {len(texts['train']):,} bytes of text for training; give a folder of text files "
            f"({', '.join(sorted(_KINDS - {''}))}) with at least 10,000"
        )
    return _corpus(texts, unit, f"a folder of {count} files, {about}", most_words)


def _corpus(texts: dict[str, bytes], unit: str, about: str, most: int | None) -> Corpus:
    if unit == "bytes":
        ids = {split: np.frombuffer(text, dtype=np.uint8) for split, text in texts.items()}
        return Corpus(**ids, vocabulary=256, about=about)
    words = {split: list(_words(text)) for split, text in texts.items()}
    counted = Counter(words["train"]).most_common(most)
    names = [UNKNOWN, *(word for word, _ in counted if word != UNKNOWN)]
    number = {word: place for place, word in enumerate(names)}
    ids = {
        split: np.array([number.get(word, 0) for word in found], dtype=np.int32)
        for split, found in words.items()
    }
    return Corpus(**ids, vocabulary=len(names), about=about)


def _words(text: bytes) -> list[str]:
    lines = text.decode(errors="replace").splitlines()
    return [word for line in lines for word in [*line.split(), END_OF_LINE]]


def _split(name: str) -> str:
    drawn = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    return "test" if drawn < HELD_OUT else "train"


Split = Callable[[Path, str, int], Examples]
"""(folder, train | test, longest length) → the examples of the split."""


def read_text(folder: Path, split: str, longest: int) -> Examples:
    """Read the reviews of IMDB as bytes: train/pos/*.txt, train/neg/*.txt, test/…; class 1 is pos."""
    sequences, labels = [], []
    for label, name in enumerate(("neg", "pos")):
        for file in _files(folder / split / name, "*.txt"):
            sequences.append(np.frombuffer(file.read_bytes()[:longest], dtype=np.uint8))
            labels.append(label)
    return Examples(inputs=sequences, labels=np.array(labels))


def read_retrieval(folder: Path, split: str, longest: int) -> Examples:
    """Read pairs of papers of AAN as bytes; each line of new_aan_pairs.train.tsv has a label, two ids and two texts."""
    named = folder / f"new_aan_pairs.{split}.tsv"
    sequences, labels = [], []
    for number, row in enumerate(_rows(named), 1):
        if len(row) < 5:
            raise ValueError(f"{named}, line {number} must have a label, two numbers and two texts")
        labels.append(int(float(row[0])))
        texts = (text.encode()[:longest] for text in row[3:5])
        sequences += [np.frombuffer(text, dtype=np.uint8) for text in texts]
    return Examples(inputs=sequences, labels=np.array(labels))


def read_image(folder: Path, split: str, longest: int) -> Examples:
    """Read the images of CIFAR-10 in grey, row by row: data_batch_*.bin and test_batch.bin of the binary version."""
    pattern = "data_batch_*.bin" if split == "train" else "test_batch.bin"
    found = [np.fromfile(file, dtype=np.uint8) for file in _files(folder, pattern)]
    for data in found:
        if len(data) % 3073:
            raise ValueError(f"{folder}/{pattern} does not consist of records of 3073 bytes")
    records = np.concatenate(found).reshape(-1, 3073)
    red, green, blue = records[:, 1:].reshape(-1, 3, 1024).transpose(1, 0, 2).astype(np.float32)
    grey = np.rint(0.299 * red + 0.587 * green + 0.114 * blue).astype(np.uint8)  # ITU-R BT.601
    return Examples(inputs=list(grey[:, :longest]), labels=records[:, 0].astype(np.int64))


def read_patches(file: Path, split: str, side: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Read images from a .npz as patches, (n, patches, values), with labels and the number of patches in a row.

    The file has `images` (n, height, width), or with channels, and `labels` (n,); every tenth image is for the test.
    """
    with np.load(file, allow_pickle=False) as found:
        if not {"images", "labels"} <= set(found.files):
            raise ValueError(f"{file} has {', '.join(found.files)}; it must have images and labels")
        images, labels = found["images"], found["labels"].astype(np.int64)
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[1] % side or images.shape[2] % side:
        raise ValueError(
            f"{file}: images of shape {images.shape[1:]} do not divide into patches of {side} by {side}"
        )
    own = (np.arange(len(images)) % 10 == 9) == (split == "test")
    n, height, width, channels = (images := images[own]).shape
    cut = images.reshape(n, height // side, side, width // side, side, channels)
    patches = cut.transpose(0, 1, 3, 2, 4, 5).reshape(n, -1, side * side * channels)
    scale = 255.0 if images.dtype == np.uint8 else 1.0
    return patches.astype(np.float32) / scale, labels[own], width // side


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"{folder} has no {pattern}")
    return found


def _rows(file: Path) -> Iterator[list[str]]:
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}")
    csv.field_size_limit(1 << 24)
    with file.open(encoding="utf-8", errors="replace", newline="") as lines:
        yield from csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
