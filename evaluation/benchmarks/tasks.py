"""The benchmarks: what each is, where its data come from, and what has to be beaten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.benchmarks import files, listops, pathfinder
from evaluation.benchmarks.files import Corpus, read_corpus
from evaluation.benchmarks.pathfinder import rules
from evaluation.benchmarks.recipe import Sizes
from evaluation.benchmarks.training import Examples
from tokenization.language import Language
from tokenization.prepared import Prepared

# Points in space with a known answer: is the field of some charges positive where a probe stands?
#
# As many charges are +1 as are −1, at random places r_j of a cube, and the field at the probe's place r is E = Σ_j
# c_j exp(−|r_j − r|² / 2s²). So the charges alone say nothing, and only their distances from the probe do. It stands
# for FourierLearner's molecules (Choromanski et al. 2023, section 4.3), whose data it is not.

REACH = 0.3  # s, of a cube of side 1
CLASSES, TOKENS = 2, 3
NEGATIVE, POSITIVE, PROBE = range(TOKENS)


def by_nearest(made: Examples) -> float:
    """Return the accuracy of taking the sign of the charge that is nearest to the probe."""
    assert made.places is not None, "clouds have places"
    away = ((made.places[:, 1:] - made.places[:, :1]) ** 2).sum(-1)
    nearest = np.stack(made.inputs)[np.arange(len(away)), 1 + away.argmin(1)]
    return float(((nearest == POSITIVE) == made.labels).mean())


def fields(charges: np.ndarray, places: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """Return E of charges ±1 at probes: (n, P), (n, P, 3) and (n, 3) → (n,)."""
    squared = ((places - probes[:, None]) ** 2).sum(-1)
    return (charges * np.exp(-squared / (2 * REACH**2))).sum(-1)


def clouds(count: int, points: int, seed: int) -> Examples:
    """Draw clouds of so many charges after a probe; either answer is as likely, since changing all signs changes it."""
    if points < 2 or points % 2:
        raise ValueError(f"a cloud of {points} charges has no half; give an even number")
    random = np.random.default_rng(seed)
    signs = np.tile(np.repeat([1.0, -1.0], points // 2), (count, 1))
    charges = random.permuted(signs, axis=1)
    places = random.random((count, 1 + points, 3))
    labels = fields(charges, places[:, 1:], places[:, 0]) > 0
    kinds = np.where(charges > 0, POSITIVE, NEGATIVE)
    tokens = np.pad(kinds, ((0, 0), (1, 0)), constant_values=PROBE).astype(np.uint8)
    return Examples(
        inputs=list(tokens),
        places=places.astype(np.float32),
        labels=labels.astype(np.int64),
    )


Progress = Callable[[int, int], None]
TRAIN, TEST = 0, 1  # seeds of made data: the same for every run


@dataclass(frozen=True, kw_only=True)
class Task:
    """A benchmark: `maker` makes its data, `reader` reads a user's; without a maker the user has to bring them."""

    about: str
    wanted: str  # which files a user brings, and where they come from
    maker: Callable[[Sizes, Progress], Material] | None = None
    reader: Callable[[Path, Sizes], Material] | None = None


@dataclass(frozen=True, kw_only=True)
class Material:
    """What is trained on and measured with: examples to classify, or a text or music as one."""

    train: Examples | None = None
    test: Examples | None = None
    classes: int = 0
    vocabulary: int = 256
    pairs: bool = False
    grid: tuple[int, ...] | None = None
    corpus: Corpus | None = None
    language: Language | None = None  # of a corpus of music
    rules: dict[str, float] = field(default_factory=dict)  # accuracy without any model
    remarks: list[str] = field(default_factory=list)

    @property
    def vectors(self) -> int | None:
        """The width of inputs that are no tokens."""
        assert self.train is not None, "it is a text"
        first = self.train.inputs[0]
        return first.shape[1] if first.ndim == 2 else None


def material(task: str, source: Path | None, sizes: Sizes, progress: Progress) -> Material:
    """Make or read the data of a task, or say which files are missing and where they come from."""
    found = TASKS[task]
    if source is None:
        if found.maker is None:
            raise ValueError(f"{task} is measured on files that you bring: give {found.wanted}")
        return found.maker(sizes, progress)
    if found.reader is None:
        raise ValueError(f"{task} is made on the spot; leave out {source}")
    if not source.exists():
        raise FileNotFoundError(f"there is no {source}; give {found.wanted}")
    try:
        return found.reader(source, sizes)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; give {found.wanted}") from None


def _reader(
    read: files.Split, made: Callable[[Examples, Examples], Material]
) -> Callable[[Path, Sizes], Material]:
    """Return what reads both splits of a user's files, to be `made` into material."""
    return lambda folder, sizes: made(
        read(folder, "train", sizes.longest), read(folder, "test", sizes.longest)
    )


def _make_listops(sizes: Sizes, progress: Progress) -> Material:
    bounds = (sizes.shortest, sizes.longest)
    train, labels = listops.listops(sizes.train, *bounds, TRAIN, progress)
    test, answers = listops.listops(sizes.test, *bounds, TEST, progress)
    return _listops(Examples(inputs=train, labels=labels), Examples(inputs=test, labels=answers))


def _listops(train: Examples, test: Examples) -> Material:
    predicted = np.array([listops.first_token_rule(ids) for ids in test.inputs])
    rules = {"first-token rule": float((predicted == test.labels).mean())}
    return _classified(train, test, listops.CLASSES, len(listops.TOKENS), rules=rules)


def _make_pathfinder(sizes: Sizes, progress: Progress) -> Material:
    count = sizes.train + sizes.test
    pixels, labels = pathfinder.pathfinder(count, sizes.size, sizes.paths, TRAIN, progress)
    both = [
        (pixels[part], labels[part]) for part in (slice(sizes.train), slice(sizes.train, count))
    ]
    train, test = (Examples(inputs=list(x.reshape(len(x), -1)), labels=y) for x, y in both)
    return _classified(
        train, test, pathfinder.CLASSES, grid=(sizes.size, sizes.size),
        rules=rules(*both), remarks=[_pictures(sizes)],
    )  # fmt: skip


def _pictures(sizes: Sizes) -> str:
    """Return what is drawn, in words."""
    paths = sizes.paths
    drawn = f"in dashes of {paths.dash} and gaps of {paths.gap}" if paths.gap else "without gaps"
    others = f"{paths.short} shorter paths" if paths.short else "no other paths"
    marks = "one of them always in the upper left corner" if paths.corner else "anywhere"
    return (
        f"Pictures of our own generator, {sizes.train:,} to train on and {sizes.test:,} others to measure with: "
        f"{sizes.size} by {sizes.size} pixels, read one by one; two paths of {paths.steps} pixels {drawn}, {others}; "
        f"two marked ends, {marks}. Are both ends of one path? Marks stand in the same places as often where they are "
        "as where they are not. The rules are logistic regressions, fitted to what is trained on. Accuracies on the "
        "Long Range Arena's files do not compare."
    )


def _square(train: Examples, test: Examples, classes: int) -> Material:
    side = round(len(train.inputs[0]) ** 0.5)
    return _classified(train, test, classes, grid=(side, side))


def _read_patches(file: Path, sizes: Sizes) -> Material:
    def read(split: str) -> tuple[Examples, tuple[int, int]]:
        patches, labels, across = files.read_patches(file, split, sizes.patch)
        return Examples(inputs=list(patches), labels=labels), (patches.shape[1] // across, across)

    (train, grid), (test, _) = read("train"), read("test")
    classes = int(max(train.labels.max(), test.labels.max())) + 1
    return _classified(train, test, classes, 1, grid=grid)


def _make_points(sizes: Sizes, progress: Progress) -> Material:
    train, test = (
        clouds(count, sizes.size, seed)
        for count, seed in ((sizes.train, TRAIN), (sizes.test, TEST))
    )
    rules = {"sign of the nearest charge": by_nearest(test)}
    return _classified(train, test, CLASSES, TOKENS, rules=rules)


def _read_language(folder: Path, sizes: Sizes) -> Material:
    corpus = read_corpus(folder, sizes.unit)
    longest = sizes.length * sizes.past
    if len(corpus.train) <= sizes.length or len(corpus.test) <= longest:
        raise ValueError(
            f"{folder} has {len(corpus.train):,} {sizes.unit} to train on and {len(corpus.test):,} to test with; "
            f"more than {sizes.length:,} and {longest:,} are needed: give more text"
        )
    about = (
        f"{folder}: {corpus.files} files, {len(corpus.train):,} {sizes.unit} to train on and "
        f"{len(corpus.test):,} to test with ({corpus.about}); {corpus.vocabulary:,} different ones"
    )
    return Material(corpus=corpus, vocabulary=corpus.vocabulary, remarks=[about])


def _read_music(folder: Path, sizes: Sizes) -> Material:
    prepared, ids = Prepared.open(folder), {}
    for split in ("train", "test"):
        rows = prepared.rows(split)
        if split == "test":  # each piece once, of those that have several rows
            rows = rows[np.unique(prepared.pieces.file[rows], return_index=True)[1]]
        ids[split] = np.concatenate([np.zeros(0, np.uint16), *map(prepared.ids, rows.tolist())])
        least = sizes.length * (sizes.past if split == "test" else 1)
        if len(ids[split]) <= least:
            raise ValueError(
                f"{folder} has {len(ids[split]):,} tokens in its {split} split, and more than {least:,} are needed"
            )
    language = prepared.language
    corpus = Corpus(
        **ids, vocabulary=len(language.vocabulary), files=prepared.meta["counts"]["train"]["files"],
        about=language.name,
    )  # fmt: skip
    about = (
        f"{folder}, in {language.name}: {len(ids['train']):,} tokens to train on, {len(ids['test']):,} of the "
        "test split"
    )
    return Material(corpus=corpus, vocabulary=corpus.vocabulary, language=language, remarks=[about])


def _classified(
    train: Examples,
    test: Examples,
    classes: int,
    vocabulary: int = 256,
    *,
    rules: dict[str, float] | None = None,
    **more: Any,
) -> Material:
    # Chance at its best: always the class that is most common in the training.
    ((label, _),) = Counter(train.labels.tolist()).most_common(1)
    rules = {**(rules or {}), "most common class": float((test.labels == label).mean())}
    return Material(
        train=train, test=test, classes=classes, vocabulary=vocabulary, rules=rules, **more
    )


TASKS: dict[str, Task] = {
    "listops": Task(
        about="the value of nested operations on digits",
        wanted="the folder of the Long Range Arena's basic_train.tsv and basic_test.tsv "
        "(lra_release.gz of https://github.com/google-research/long-range-arena), or nothing: they are made then",
        maker=_make_listops,
        reader=_reader(files.read_listops, _listops),
    ),
    "pathfinder": Task(
        about="whether two marks are the ends of one dashed path, by pixels",
        wanted="a folder such as pathfinder32/curv_contour_length_14 with imgs and metadata (lra_release.gz of "
        "https://github.com/google-research/long-range-arena), or nothing: pictures of our own are made then",
        maker=_make_pathfinder,
        reader=_reader(files.read_pathfinder, partial(_square, classes=pathfinder.CLASSES)),
    ),
    "text": Task(
        about="whether a film review is good or bad, by bytes",
        wanted="the folder aclImdb with train/pos, train/neg, test/pos and test/neg "
        "(https://ai.stanford.edu/~amaas/data/sentiment)",
        reader=_reader(files.read_text, partial(_classified, classes=2)),
    ),
    "retrieval": Task(
        about="whether one paper cites another, by the bytes of both",
        wanted="the folder of new_aan_pairs.train.tsv and new_aan_pairs.test.tsv (lra_release.gz of "
        "https://github.com/google-research/long-range-arena, made of the ACL Anthology Network)",
        reader=_reader(files.read_retrieval, partial(_classified, classes=2, pairs=True)),
    ),
    "image": Task(
        about="what a picture of 32 by 32 shows, by grey pixels",
        wanted="the folder cifar-10-batches-bin with data_batch_1.bin … and test_batch.bin "
        "(CIFAR-10 binary version, https://www.cs.toronto.edu/~kriz/cifar.html)",
        reader=_reader(files.read_image, partial(_square, classes=10)),
    ),
    "patches": Task(
        about="what pictures of your own show, by patches",
        wanted="a .npz of images (n, height, width) or with channels, and labels (n,)",
        reader=_read_patches,
    ),
    "points": Task(
        about="whether the field of charges in space is positive at a probe, made with the answer known",
        wanted="nothing",
        maker=_make_points,
    ),
    "language": Task(
        about="the next byte or word of a text",
        wanted="a folder of text files, or that of wiki.train.tokens, wiki.valid.tokens and wiki.test.tokens "
        "(WikiText-103, https://huggingface.co/datasets/Salesforce/wikitext)",
        reader=_read_language,
    ),
    "music": Task(
        about="the next token of music: what each part of a model is worth",
        wanted="a prepared data set, such as `musicgen data pop909` makes",
        reader=_read_music,
    ),
}
