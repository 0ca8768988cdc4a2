"""The benchmarks: recipes, where data come from, and what has to be beaten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evaluation.benchmarks import files, made
from evaluation.benchmarks.files import Corpus, read_corpus
from evaluation.benchmarks.training import Examples, Optimiser, Pool
from evaluation.benchmarks.variants import SPACES, Variant, variant
from musicgen.position import POSITIONS
from tokenization.language import Language
from tokenization.prepared import Prepared
from tokenization.records import from_plain, suggestion, yaml_of

# A recipe: the model, its training and the size of the data, from the YAML file of the task in `recipes`. TASK-short is
# for two cores and our own; TASK is of the size of the papers; TASK-PAPER has what a paper's tables print.

FOLDER = Path(__file__).parent / "recipes"
# The recipe of a task, where it is not named as the task.
FULL = {"language": "language-flt", "music": "music-short"}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much data, and of what size; a task reads those that it knows."""

    train: int = 1000  # examples that are made; from users' files all are read
    test: int = 0  # examples that are made; of users' files so many at most, or 0: all
    shortest: int = 500  # tokens of an expression
    longest: int = 2000  # tokens, or bytes, of a sequence
    size: int = 32  # of a picture, or points of a cloud
    paths: made.Paths = field(default_factory=made.Paths)  # of Pathfinder
    patch: int = 4  # pixels
    unit: Literal["bytes", "words"] = "bytes"  # of text
    length: int = 512  # of stretches of text to train on
    past: int = 4  # text is read up to so many times that length
    counted: int | None = None  # perplexity of the last so many positions alone, as a paper has it
    sequences: int = 32  # of text, to measure with


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that determines a benchmark but its data, its encodings and its seed."""

    task: str
    about: str  # where it comes from, and what is our own
    model: dict[str, Any]  # values of ModelConfig
    optimiser: dict[str, Any]  # values of Optimiser; `epochs` may stand for steps
    pool: Pool = "mean"  # what a classifier decides by
    data: Sizes = field(default_factory=Sizes)
    encodings: tuple[str, ...] = ("none", "absolute", "rope", "sine_spe", "conv_spe")
    encoding: Any = field(default_factory=dict)  # values of encodings: by name, or of `all`

    def variant(self, name: str, sizes: tuple[int, ...] | None) -> Variant:
        """Return what the recipe makes of an encoding, for a grid of those sizes where there is one."""
        chosen, choice = variant(name)
        own = self.encoding.get(name.partition(":")[0], {})
        common = {"sizes": sizes} if sizes is not None else {}
        common |= self.encoding.get("all", {})
        known = {**POSITIONS, **SPACES}[chosen.position][0].__dataclass_fields__
        fitting = {key: value for key, value in common.items() if key in known}
        return replace(chosen, choice={**fitting, **chosen.choice, **own, **choice})

    def training(self, examples: int) -> Optimiser:
        """Return the settings of a training on so many examples."""
        values = dict(self.optimiser)
        epochs = values.pop("epochs", None)
        if epochs is not None and "steps" not in values:
            values["steps"] = max(1, round(epochs * examples / values["batch"]))
        return from_plain(Optimiser, values, "optimiser")


def names() -> list[str]:
    """Return the names of all recipes."""
    return sorted(name for file in FOLDER.iterdir() for name in yaml_of(file))


def recipe(name: str) -> Recipe:
    """Read a recipe by name."""
    if name not in names():
        raise ValueError(f"there is no recipe {name!r}{suggestion(name, names())}")
    task = name.partition("-")[0]
    values = {"task": task, **yaml_of(FOLDER / f"{task}.yaml")[name]}
    return from_plain(Recipe, values, f"recipe {name}")


# The data of each task.

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
    read: files.Split, compose: Callable[[Examples, Examples], Material]
) -> Callable[[Path, Sizes], Material]:
    """Return what reads both splits of a user's files, to be composed into material."""
    return lambda folder, sizes: compose(
        read(folder, "train", sizes.longest), read(folder, "test", sizes.longest)
    )


def _make_listops(sizes: Sizes, progress: Progress) -> Material:
    bounds = (sizes.shortest, sizes.longest)
    train, labels = made.listops(sizes.train, *bounds, TRAIN, progress)
    test, answers = made.listops(sizes.test, *bounds, TEST, progress)
    return _listops(Examples(inputs=train, labels=labels), Examples(inputs=test, labels=answers))


def _listops(train: Examples, test: Examples) -> Material:
    predicted = np.array([made.first_token_rule(ids) for ids in test.inputs])
    rules = {"first-token rule": float((predicted == test.labels).mean())}
    return _classified(train, test, made.VALUES, len(made.TOKENS), rules=rules)


def _make_pathfinder(sizes: Sizes, progress: Progress) -> Material:
    count = sizes.train + sizes.test
    pixels, labels = made.pathfinder(count, sizes.size, sizes.paths, TRAIN, progress)
    both = [
        (pixels[part], labels[part]) for part in (slice(sizes.train), slice(sizes.train, count))
    ]
    train, test = (Examples(inputs=list(x.reshape(len(x), -1)), labels=y) for x, y in both)
    return _classified(
        train, test, 2, grid=(sizes.size, sizes.size),
        rules=made.rules(*both), remarks=[_pictures(sizes)],
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
        made.clouds(count, sizes.size, seed)
        for count, seed in ((sizes.train, TRAIN), (sizes.test, TEST))
    )
    rules = {"sign of the nearest charge": made.by_nearest(test)}
    return _classified(train, test, classes=2, vocabulary=3, rules=rules)


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
        reader=_reader(files.read_pathfinder, partial(_square, classes=2)),
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
