"""The tasks of the benchmarks: their recipes, their data, and simple rules as baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evaluation.benchmarks import files, made
from evaluation.benchmarks.files import Corpus, read_corpus
from evaluation.benchmarks.training import Examples, Optimiser, Pool
from evaluation.benchmarks.variants import SPACES, Variant, variant
from musicgen.parts import POSITION_CONFIGS
from tokenization.language import Language
from tokenization.prepared import Prepared
from tokenization.records import from_plain, suggestion, yaml_of

# A recipe sets the model, its training and the size of the data, in the task's YAML file in `recipes`. TASK-short is
# our own, for two cores; TASK has the size of the papers; TASK-PAPER has the values that a paper prints.

FOLDER = Path(__file__).parent / "recipes"
# The default recipe of a task, if it does not have the task's name.
FULL = {"language": "language-flt", "music": "music-short"}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The amount and size of the data; each task uses some of these."""

    train: int = 1000  # generated examples; files are read whole
    test: int = 0  # generated examples, or the most to use from files (0: all)
    shortest: int = 500  # tokens of an expression
    longest: int = 2000  # tokens, or bytes, of a sequence
    size: int = 32  # pixels of a picture's side, or points of a cloud
    paths: made.Paths = field(default_factory=made.Paths)  # of Pathfinder
    patch: int = 4  # pixels of a patch's side
    unit: Literal["bytes", "words"] = "bytes"  # of text
    length: int = 512  # of training sequences of text
    past: int = 4  # test sequences of text are this many times as long
    counted: int | None = None  # measure only the last positions within the length, as in a paper
    sequences: int = 32  # test sequences of text


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that determines a benchmark except for its data, its encodings and its seed."""

    task: str
    about: str  # its source, and which choices are our own
    model: dict[str, Any]  # values of ModelConfig
    optimiser: dict[str, Any]  # values of Optimiser; `epochs` can replace the steps
    pool: Pool = "mean"  # of a classifier
    data: Sizes = field(default_factory=Sizes)
    encodings: tuple[str, ...] = ("none", "absolute", "rope", "sine_spe", "conv_spe")
    encoding: Any = field(default_factory=dict)  # values of encodings, by name, or under `all`

    def variant(self, name: str) -> Variant:
        """Return an encoding with the recipe's values."""
        chosen, choice = variant(name)
        own = self.encoding.get(name.partition(":")[0], {})
        common = self.encoding.get("all", {})
        configs = {**POSITION_CONFIGS, **{space: config for space, (config, _) in SPACES.items()}}
        known = {one.name for one in fields(configs[chosen.position])}
        fitting = {key: value for key, value in common.items() if key in known}
        return replace(chosen, choice={**fitting, **chosen.choice, **own, **choice})

    def training(self, examples: int) -> Optimiser:
        """Return the settings of a training on this number of examples."""
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
TRAIN, TEST = 0, 1  # seeds of generated data, the same for every run


@dataclass(frozen=True, kw_only=True)
class Task:
    """A benchmark: `maker` generates its data, `reader` reads files; one of them can be missing."""

    about: str
    needs: str  # the files that the user has to give, and their source
    maker: Callable[[Sizes, Progress], BenchmarkData] | None = None
    reader: Callable[[Path, Sizes], BenchmarkData] | None = None


@dataclass(frozen=True, kw_only=True)
class BenchmarkData:
    """The data of a benchmark: examples to classify, or a corpus of text or music."""

    train: Examples | None = None
    test: Examples | None = None
    classes: int = 0
    vocabulary: int = 256
    pairs: bool = False
    corpus: Corpus | None = None
    language: Language | None = None  # of a corpus of music
    rules: dict[str, float] = field(default_factory=dict)  # accuracy without any model
    remarks: list[str] = field(default_factory=list)

    @property
    def vectors(self) -> int | None:
        """The width of inputs that are vectors; None if they are tokens."""
        assert self.train is not None, "a corpus has no vectors"
        first = self.train.inputs[0]
        return first.shape[1] if first.ndim == 2 else None


def data_of(task: str, source: Path | None, sizes: Sizes, progress: Progress) -> BenchmarkData:
    """Generate or read the data of a task; an error says which files are needed and where to find them."""
    found = TASKS[task]
    if source is None:
        if found.maker is None:
            raise ValueError(f"{task} needs data as SOURCE: {found.needs}")
        return found.maker(sizes, progress)
    if found.reader is None:
        raise ValueError(f"{task} generates its data; leave out {source}")
    if not source.exists():
        raise FileNotFoundError(f"there is no file or folder {source}; {task} needs {found.needs}")
    try:
        return found.reader(source, sizes)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {task} needs {found.needs}") from None


def _reader(
    read: files.Split, compose: Callable[[Examples, Examples], BenchmarkData]
) -> Callable[[Path, Sizes], BenchmarkData]:
    """Return a reader of both splits of a task's files."""

    def both(folder: Path, sizes: Sizes) -> BenchmarkData:
        train, test = (read(folder, split, sizes.longest) for split in ("train", "test"))
        count = len(test.labels)
        if not 0 < sizes.test < count:
            return compose(train, test)
        # Evenly spread, since files can be sorted by class.
        data = compose(train, test.only(np.linspace(0, count - 1, sizes.test, dtype=int)))
        measured = f"Measured on {sizes.test:,} of the {count:,} test examples."
        return replace(data, remarks=[*data.remarks, measured])

    return both


def _make_listops(sizes: Sizes, progress: Progress) -> BenchmarkData:
    bounds = (sizes.shortest, sizes.longest)
    train, labels = made.listops(sizes.train, *bounds, TRAIN, progress)
    test, answers = made.listops(sizes.test, *bounds, TEST, progress)
    predicted = np.array([made.first_token_rule(ids) for ids in test])
    rules = {"first-token rule": float((predicted == answers).mean())}
    return _classified(
        Examples(inputs=train, labels=labels), Examples(inputs=test, labels=answers),
        made.VALUES, len(made.TOKENS), rules=rules,
    )  # fmt: skip


def _make_pathfinder(sizes: Sizes, progress: Progress) -> BenchmarkData:
    count = sizes.train + sizes.test
    pixels, labels = made.pathfinder(count, sizes.size, sizes.paths, TRAIN, progress)
    both = [
        (pixels[part], labels[part]) for part in (slice(sizes.train), slice(sizes.train, count))
    ]
    train, test = (Examples(inputs=list(x.reshape(len(x), -1)), labels=y) for x, y in both)
    return _classified(
        train, test, 2, grid=(sizes.size, sizes.size),
        rules={"rule by lit pixels on the line between marks": made.line_rule(*both)},
        remarks=[
            f"Generated pictures of {sizes.size} by {sizes.size} pixels, {sizes.train:,} for training and "
            f"{sizes.test:,} for the test. The accuracies cannot be compared with those on the benchmark's files."
        ],
    )  # fmt: skip


def _read_patches(file: Path, sizes: Sizes) -> BenchmarkData:
    def read(split: str) -> tuple[Examples, tuple[int, int]]:
        patches, labels, across = files.read_patches(file, split, sizes.patch)
        return Examples(inputs=list(patches), labels=labels), (patches.shape[1] // across, across)

    (train, grid), (test, _) = read("train"), read("test")
    classes = int(max(train.labels.max(), test.labels.max())) + 1
    return _classified(train, test, classes, 1, grid=grid)


def _make_points(sizes: Sizes, progress: Progress) -> BenchmarkData:
    train, test = (
        made.clouds(count, sizes.size, seed)
        for count, seed in ((sizes.train, TRAIN), (sizes.test, TEST))
    )
    rules = {"sign of the nearest charge": made.by_nearest(test)}
    return _classified(train, test, classes=2, vocabulary=3, rules=rules)


def _read_language(folder: Path, sizes: Sizes) -> BenchmarkData:
    corpus = read_corpus(folder, sizes.unit)
    return _corpus_data(f"{folder}: {corpus.about}", corpus, sizes, sizes.unit)


def _read_music(folder: Path, sizes: Sizes) -> BenchmarkData:
    prepared, ids = Prepared.open(folder), {}
    for split in ("train", "test"):
        rows = prepared.rows(split)
        if split == "test":  # one row per piece
            rows = rows[np.unique(prepared.pieces.file[rows], return_index=True)[1]]
        ids[split] = np.concatenate([np.zeros(0, np.uint16), *map(prepared.ids, rows.tolist())])
    language = prepared.language
    corpus = Corpus(**ids, vocabulary=len(language.vocabulary))
    data = _corpus_data(f"{folder}, in {language.name}", corpus, sizes, "tokens")
    return replace(data, language=language)


def _corpus_data(name: str, corpus: Corpus, sizes: Sizes, unit: str) -> BenchmarkData:
    train, test, longest = len(corpus.train), len(corpus.test), sizes.length * sizes.past
    found = f"{name} has {train:,} {unit} for training and {test:,} for the test"
    if train <= sizes.length or test <= longest:
        raise ValueError(f"{found}; more than {sizes.length:,} and {longest:,} are needed")
    remarks = [f"{found}, and a vocabulary of {corpus.vocabulary:,}"]
    return BenchmarkData(corpus=corpus, vocabulary=corpus.vocabulary, remarks=remarks)


def _classified(
    train: Examples,
    test: Examples,
    classes: int,
    vocabulary: int = 256,
    *,
    grid: tuple[int, int] | None = None,
    rules: dict[str, float] | None = None,
    **more: Any,
) -> BenchmarkData:
    """Return data to classify; with `grid`, positions are its cells, row by row."""
    if grid is not None:
        cells = np.indices(grid).reshape(1, 2, -1).transpose(0, 2, 1)  # (1, T, 2)
        train, test = (replace(one, places=cells) for one in (train, test))
    # The baseline without any input: always the most common class of the training examples.
    ((label, _),) = Counter(train.labels.tolist()).most_common(1)
    rules = {**(rules or {}), "most common class": float((test.labels == label).mean())}
    return BenchmarkData(
        train=train, test=test, classes=classes, vocabulary=vocabulary, rules=rules, **more
    )


TASKS: dict[str, Task] = {
    "listops": Task(
        about="the value of nested operations on digits", needs="nothing", maker=_make_listops
    ),
    "pathfinder": Task(
        about="whether two marks are the ends of one path, pixel by pixel",
        needs="nothing",
        maker=_make_pathfinder,
    ),
    "text": Task(
        about="whether a film review is positive or negative, byte by byte",
        needs="the folder aclImdb with train/pos, train/neg, test/pos and test/neg "
        "(https://ai.stanford.edu/~amaas/data/sentiment)",
        reader=_reader(files.read_text, partial(_classified, classes=2)),
    ),
    "retrieval": Task(
        about="whether one paper cites another, from the bytes of both",
        needs="the folder with new_aan_pairs.train.tsv and new_aan_pairs.test.tsv (lra_release.gz of "
        "https://github.com/google-research/long-range-arena, from the ACL Anthology Network)",
        reader=_reader(files.read_retrieval, partial(_classified, classes=2, pairs=True)),
    ),
    "image": Task(
        about="what a picture of 32 by 32 shows, as grey pixels",
        needs="the folder cifar-10-batches-bin with data_batch_1.bin … and test_batch.bin "
        "(CIFAR-10 binary version, https://www.cs.toronto.edu/~kriz/cifar.html)",
        reader=_reader(files.read_image, partial(_classified, classes=10, grid=(32, 32))),
    ),
    "patches": Task(
        about="what your own pictures show, as patches",
        needs="a .npz with images (n, height, width), or with channels, and labels (n,)",
        reader=_read_patches,
    ),
    "points": Task(
        about="whether the field of charges in space is positive at a probe",
        needs="nothing",
        maker=_make_points,
    ),
    "language": Task(
        about="the next byte or word of a text",
        needs="a folder of text files, or one with wiki.train.tokens, wiki.valid.tokens and wiki.test.tokens "
        "(WikiText-103, https://huggingface.co/datasets/Salesforce/wikitext)",
        reader=_read_language,
    ),
    "music": Task(
        about="the next token of music: what each part of a model is worth",
        needs="a prepared data set, as made by `musicgen data pop909`",
        reader=_read_music,
    ),
}
