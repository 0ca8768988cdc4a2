"""Users' files in the forms of the Long Range Arena: what is missing is named, with where it comes from.

Nothing is unpickled and nothing downloaded. Each reader returns sequences (of pairs, two after one another) and labels
of the splits train and test.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from evaluation.benchmarks.listops import read_expression
from evaluation.benchmarks.training import Examples

Split = Callable[[Path, str, int], Examples]
"""(folder, train | test, longest length) → what is in it."""


def read_text(folder: Path, split: str, longest: int) -> Examples:
    """Return the reviews of IMDB as bytes: train/pos/*.txt, train/neg/*.txt, test/…; class 1 is pos."""
    sequences, labels = [], []
    for label, name in enumerate(("neg", "pos")):
        for file in _files(folder / split / name, "*.txt"):
            sequences.append(np.frombuffer(file.read_bytes()[:longest], dtype=np.uint8))
            labels.append(label)
    return Examples(inputs=sequences, labels=np.array(labels))


def read_retrieval(folder: Path, split: str, longest: int) -> Examples:
    """Return pairs of papers of AAN as bytes: new_aan_pairs.train.tsv of label, two numbers, two texts a line."""
    named = folder / f"new_aan_pairs.{split}.tsv"
    sequences, labels = [], []
    for number, row in enumerate(_rows(named), 1):
        if len(row) < 5:
            raise ValueError(
                f"{named}, line {number}: a label, two numbers and two texts are wanted"
            )
        labels.append(int(float(row[0])))
        sequences += [_text(text, longest) for text in row[3:5]]
    return Examples(inputs=sequences, labels=np.array(labels))


def read_image(folder: Path, split: str, longest: int) -> Examples:
    """Return the images of CIFAR-10 in grey, row by row: data_batch_*.bin and test_batch.bin of the binary version."""
    pattern = "data_batch_*.bin" if split == "train" else "test_batch.bin"
    found = [np.fromfile(file, dtype=np.uint8) for file in _files(folder, pattern)]
    for data in found:
        if len(data) % 3073:
            raise ValueError(f"{folder}/{pattern} does not hold records of 3073 bytes")
    records = np.concatenate(found).reshape(-1, 3073)
    red, green, blue = records[:, 1:].reshape(-1, 3, 1024).transpose(1, 0, 2).astype(np.float32)
    grey = np.rint(0.299 * red + 0.587 * green + 0.114 * blue).astype(np.uint8)  # ITU-R BT.601
    return Examples(inputs=list(grey[:, :longest]), labels=records[:, 0].astype(np.int64))


def read_listops(folder: Path, split: str, longest: int) -> Examples:
    """Return expressions of the benchmark's own files: basic_train.tsv with columns Source and Target."""
    named = folder / f"basic_{split}.tsv"
    sequences, labels = [], []
    for number, row in enumerate(_rows(named), 1):
        if number == 1 and row[:1] == ["Source"]:
            continue
        if len(row) != 2:
            raise ValueError(f"{named}, line {number}: an expression and its value are wanted")
        sequences.append(read_expression(row[0])[:longest])
        labels.append(int(row[1]))
    return Examples(inputs=sequences, labels=np.array(labels))


def read_pathfinder(folder: Path, split: str, longest: int) -> Examples:
    """Return the images of Pathfinder: metadata/*.npy, whose lines name imgs/…/*.png and a class; a tenth is test."""
    from PIL import Image

    sequences, labels = [], []
    for sheet in _files(folder / "metadata", "*.npy"):
        lines = sheet.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines):
            words = line.split()
            if len(words) < 4 or (number % 10 == 9) != (split == "test"):
                continue
            with Image.open(folder / words[0] / words[1]) as image:
                pixels = np.asarray(image.convert("L"))
            sequences.append(pixels.reshape(-1)[:longest])
            labels.append(int(words[3]))
    if not sequences:
        raise ValueError(f"{folder}/metadata names no images of the split {split}")
    return Examples(inputs=sequences, labels=np.array(labels))


def read_patches(file: Path, split: str, side: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return images of a .npz as patches: (n, patches, values), labels, and how many patches stand in a row.

    The file holds `images` (n, height, width) or with channels, and `labels` (n,); every tenth image is of the test.
    """
    with np.load(file, allow_pickle=False) as found:
        if not {"images", "labels"} <= set(found.files):
            raise ValueError(f"{file} holds {', '.join(found.files)}; images and labels are wanted")
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
        raise FileNotFoundError(f"{folder} holds no {pattern}")
    return found


def _rows(file: Path) -> Iterator[list[str]]:
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}")
    csv.field_size_limit(1 << 24)
    with file.open(encoding="utf-8", errors="replace", newline="") as lines:
        yield from csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def _text(text: str, longest: int) -> np.ndarray:
    return np.frombuffer(text.encode()[:longest], dtype=np.uint8)
