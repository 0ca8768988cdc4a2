"""Prepare a data set from a folder of music, in parallel; the bytes do not depend on the number of processes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from musicgen.pieces import program
from tokenization.language import Encoded, Language, language
from tokenization.prepared import (
    FORMAT,
    META_FILE,
    NO_STYLE,
    PIECES_FILE,
    SPLITS,
    TOKEN_TYPE,
    TOKENS_FILE,
    Pieces,
    read_meta,
)
from tokenization.processes import processors
from tokenization.whole_file import full_disk_named, lock_folder, make_folder, sync
from tokenization.workers import Bounds, Failed, Workers, in_order
from training.data.archive import unpacked
from training.data.sources import SOURCES
from training.data.sources.source import Piece, Skipped, Source, list_files
from training.data.sources.works import opening, split_works

MOST_REMARKS = 50  # kinds of remarks that are kept
# What can differ between remarks of one kind: numbers, quoted names, and the text after a colon.
_DETAIL = re.compile(r"\d+(?:[.,]\d+)*|'[^']*'|(?<=:) .*")


@dataclass
class PrepareReport:
    """What was skipped, lost and assumed in the files of a set."""

    skipped: list[Skipped]
    notes: list[str]  # on the whole source
    losses: Counter[str] = field(default_factory=Counter)
    _first: dict[bytes, str] = field(default_factory=dict)  # by digest of the tokens
    _files: Counter[str] = field(default_factory=Counter)  # by kind of remark
    _examples: dict[str, str] = field(default_factory=dict)

    def duplicate_of(self, name: str, rows: Sequence[Encoded]) -> str | None:
        """Return the earlier file with the same tokens, if there is one."""
        digest = hashlib.sha256(b"".join(row.ids.tobytes() for row in rows)).digest()
        first = self._first.setdefault(digest, name)
        return None if first == name else first

    def add(self, piece: EncodedPiece) -> None:
        """Count the losses and the kinds of remarks of a file."""
        for row in piece.rows:
            self.losses += Counter(row.losses)
        kinds = {_DETAIL.sub("#", remark): remark for remark in piece.remarks}
        for kind, remark in kinds.items():
            self._files[kind] += 1
            self._examples.setdefault(kind, remark)

    def meta(self) -> dict[str, Any]:
        """Return the report as plain data, the most frequent kinds of remarks first."""
        return {
            "notes": self.notes,
            "losses": dict(sorted(self.losses.items())),
            "remarks": [
                {"example": self._examples[kind], "files": files}
                for kind, files in self._files.most_common(MOST_REMARKS)
            ],
            "skipped": [asdict(skipped) for skipped in self.skipped],
        }


ELSEWHERE = "choose another folder for the set"


class PreparedWriter:
    """Writes a prepared set file by file; without `commit` it leaves no trace.

    The set is written to a hidden folder next to the destination and then renamed. An existing set is moved aside for
    that moment.
    """

    def __init__(self, destination: Path, *, replace: bool) -> None:
        self.destination = Path(os.path.realpath(destination))
        self._part = self.destination.with_name(f".{self.destination.name}.part")
        self._replace = replace
        self._digest = hashlib.sha256()
        self._tokens = 0
        self._rows: list[tuple[int, int, int]] = []  # length, notes, file
        self._bars: list[np.ndarray] = []
        self._names: list[str] = []
        self._splits: list[str] = []  # of each file
        self._styles: list[str] = []
        self.work_names: list[str] = []  # of each file, in its source
        self.works: list[tuple[str, ...]] = []  # the keys of each file's work

    def __enter__(self) -> PreparedWriter:
        with self._disk():
            make_folder(self.destination.parent, ELSEWHERE)
            check_destination(self.destination, replace=self._replace)
            make_folder(self._part, ELSEWHERE, for_=self.destination)
            self._lock = lock_folder(self._part, f"another program is writing {self.destination}")
            for path in self._part.iterdir():  # left by a program that was killed
                path.unlink()
            self._file = (self._part / TOKENS_FILE).open("wb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # a full disk fails again
            self._file.close()
        shutil.rmtree(self._part, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def add(
        self,
        name: str,
        rows: Sequence[Encoded],
        *,
        split: str,
        style: str = "",
        work: str = "",
        works: tuple[str, ...] = (),
    ) -> None:
        """Append the rows of a file."""
        for row in rows:
            data = np.ascontiguousarray(row.ids, dtype=TOKEN_TYPE).tobytes()
            with self._disk():
                self._file.write(data)
            self._digest.update(data)
            self._tokens += len(row.ids)
            self._rows.append((len(row.ids), row.notes, len(self._names)))
            self._bars.append(np.asarray(row.bars, dtype=np.uint32))
        self._names.append(name)
        self._splits.append(split)
        self._styles.append(style)
        self.work_names.append(work)
        self.works.append(works)

    def split_by_works(self, fraction: float, *, by_name: bool) -> None:
        """Assign each file to the split of its work; the fraction is held out for validation and again for test."""
        self._splits = split_works(self.work_names, self.works, fraction, by_name=by_name)

    def commit(self, meta: dict[str, Any], licence: Path | None = None) -> None:
        """Write the description, copy the source's licence, and move the set to its destination."""
        pieces = self._pieces()
        meta = {
            "format": FORMAT,
            **meta,
            "counts": _counts(pieces),
            "styles": self._named_styles(),
            "tokens": self._tokens,
            "checksum": self._digest.hexdigest(),
        }
        with self._disk():
            self._file.close()
            columns = {**vars(pieces)}
            if not any(self.works):  # a column that older sets lack
                del columns["works"]
            _save(self._part / PIECES_FILE, columns)
            text = json.dumps(meta, indent=1, ensure_ascii=False) + "\n"
            (self._part / META_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")
            if licence is not None:
                shutil.copyfile(licence, self._part / "LICENSE")
            for path in [*self._part.iterdir(), self._part]:
                sync(path)
            check_destination(self.destination, replace=self._replace)
            old = self.destination.with_name(f".{self.destination.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            if self.destination.exists():
                self.destination.rename(old)
            self._part.rename(self.destination)
            sync(self.destination.parent)
            shutil.rmtree(old, ignore_errors=True)

    def _named_styles(self) -> list[str]:
        return [style for style in dict.fromkeys(self._styles) if style]

    def _pieces(self) -> Pieces:
        length, notes, file = np.array(self._rows, dtype=np.int64).T
        split = np.array([SPLITS.index(split) for split in self._splits])
        number = {"": NO_STYLE} | {name: at for at, name in enumerate(self._named_styles())}
        style = np.array([number[style] for style in self._styles])
        bars = [len(row) for row in self._bars]
        return Pieces(
            start=np.cumsum(length) - length,
            length=length,
            notes=notes,
            bar_start=np.append(0, np.cumsum(bars, dtype=np.int64)),
            bars=np.concatenate(self._bars),
            file=file,
            split=split[file].astype(np.uint8),
            style=style[file].astype(np.int32),
            names=np.array(self._names, dtype=np.str_),
            works=np.array(["\n".join(keys) for keys in self.works], dtype=np.str_),
        )

    def _disk(self) -> AbstractContextManager[None]:
        return full_disk_named(
            self.destination.parent, "choose another folder for the set (nothing was changed)"
        )


def _counts(pieces: Pieces) -> dict[str, dict[str, int]]:
    """Return the numbers of files, pieces, tokens, bars and notes by split."""
    bars, counts = np.diff(pieces.bar_start), {}
    for number, split in enumerate(SPLITS):
        rows = pieces.split == number
        counts[split] = {
            "files": len(np.unique(pieces.file[rows])),
            "pieces": int(rows.sum()),
            "tokens": int(pieces.length[rows].sum()),
            "bars": int(bars[rows].sum()),
            "notes": int(pieces.notes[rows].sum()),
        }
    return counts


def _save(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write columns as an npz file; numpy's `savez` does not allow a column named `file`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, column, allow_pickle=False)


def check_destination(destination: Path, *, replace: bool) -> None:
    """Raise ValueError if the destination holds anything other than a prepared set that may be replaced."""
    if not destination.exists():
        return
    if not destination.is_dir():
        raise ValueError(f"{destination} is a file; choose a folder for the set")
    if not any(destination.iterdir()):
        return
    try:
        meta = read_meta(destination)
    except ValueError:
        raise ValueError(
            f"{destination} is not empty and has no prepared data set; choose another folder"
        ) from None
    if not replace:
        raise ValueError(
            f"{destination} already holds a prepared data set of {meta['tokens']} tokens; "
            "choose another folder, or replace it with --force"
        )


LICENCES = (
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
    "LICENCE",
    "COPYING",
    "SOURCE-COPYING.adoc",
)  # names of files

# The language whose sets hold out whole works; others hold out pieces by name.
BY_WORKS = "ensemble"
LIMIT_SECONDS = 300.0  # of processor time for a file
MEMORY_BYTES = 2 << 30  # for a file, besides the program's own

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """How a data set is prepared."""

    language: str | None = None  # by default the source's
    validation: float = 0.05  # held out if the source has no split; by works, for test too
    test_only: bool = False  # hold out all pieces, regardless of their splits
    workers: Workers | None = None  # by default one per processor; 0: this process
    replace: bool = False  # replace a prepared set at the destination
    title: str | None = None  # by default the source's
    licence: str | None = None  # by default the source's

    def __post_init__(self) -> None:
        if not 0 <= self.validation <= 0.45:
            raise ValueError(f"the held-out fraction is {self.validation:g}; give 0 to 0.45")
        if isinstance(self.workers, int) and self.workers < 0:
            raise ValueError(f"the number of workers is {self.workers}; give 0 or more")


@dataclass(frozen=True, kw_only=True)
class EncodedPiece:
    """The rows and remarks of a piece."""

    rows: list[Encoded]
    remarks: tuple[str, ...]
    works: tuple[str, ...] = ()  # the keys of the work, if pieces are held out by works


def prepare(
    source: str,
    folder: Path,
    destination: Path,
    options: PrepareOptions,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Prepare a data set from a source's folder or archive; return its description."""
    kind = SOURCES[source]
    target = language(options.language or kind.language)
    check_destination(destination, replace=options.replace)
    with unpacked(folder) as (root, left_out):
        listing = list_files(root)
        if not listing.files:
            raise ValueError(f"{folder} is empty; expected {kind.title} ({kind.shape})")
        found = kind.find(listing, options.validation)
        if not found.pieces:
            raise ValueError(f"{folder} is not {kind.title} ({kind.shape})")
        report = PrepareReport([*left_out, *found.skipped], found.remarks)
        with PreparedWriter(destination, replace=options.replace) as writer:
            _fill(writer, report, found.pieces, kind, target, options, progress)
            if not writer.works:
                first = "".join(
                    f"; the first, {one.name}: {one.reason}" for one in report.skipped[:1]
                )
                raise ValueError(
                    f"none of the {len(found.pieces)} pieces of {folder} could be prepared{first}"
                )
            # If the source has no splits, works are held out.
            if target.name == BY_WORKS and all(writer.work_names) and not options.test_only:
                writer.split_by_works(options.validation, by_name=kind.by_name)
            description = {
                "tool": program(),
                "source": {
                    "name": kind.name,
                    "title": options.title or kind.title,
                    "folder": folder.resolve().name,
                    "licence": options.licence or kind.licence,
                },
                "language": target.spec(),
                "vocabulary": target.vocabulary.to_json(),
                "validation": options.validation,
                "style": kind.style,
                **report.meta(),
            }
            writer.commit(description, _licence(root))
    return read_meta(destination)


def encode_piece(source: str, language_name: str, piece: Piece) -> EncodedPiece | Skipped:
    """Read a piece and encode it in a language; called in the worker processes."""
    target = language(language_name)
    try:
        scores = SOURCES[source].scores(piece, target)
        rows = [target.encode(score) for score in scores]
        works: list[str] = []
        if target.name == BY_WORKS and piece.work:
            works = [*opening(scores[0]), *SOURCES[source].titles(piece)]
    except (ValueError, OSError) as error:
        # The report does not reveal the path, which may also be temporary.
        return Skipped(piece.name, str(error).replace(str(piece.path), piece.name))
    except MemoryError:
        return Skipped(piece.name, "reading it takes more memory than is available")
    remarks = dict.fromkeys(remark for score in scores for remark in score.remarks)
    return EncodedPiece(rows=rows, remarks=tuple(remarks), works=tuple(works))


def _fill(
    writer: PreparedWriter,
    report: PrepareReport,
    pieces: Sequence[Piece],
    kind: Source,
    target: Language,
    options: PrepareOptions,
    progress: Progress,
) -> None:
    """Encode the pieces in parallel, and add them to the set in order."""
    workers = processors() if options.workers is None else options.workers
    progress(0, len(pieces))
    answered = in_order(
        partial(encode_piece, kind.name, target.name),
        pieces,
        workers=min(workers, len(pieces)) if isinstance(workers, int) else workers,
        bounds=Bounds(seconds=LIMIT_SECONDS, memory_bytes=MEMORY_BYTES),
    )
    with closing(answered) as answers:
        for done, (piece, answer) in enumerate(zip(pieces, answers, strict=True), 1):
            if isinstance(answer, Failed | Skipped):
                report.skipped.append(Skipped(piece.name, answer.reason))
            elif first := report.duplicate_of(piece.name, answer.rows):
                # A duplicate could be in both the training and the test split.
                report.skipped.append(Skipped(piece.name, f"it has the same notes as {first}"))
            else:
                writer.add(
                    piece.name, answer.rows, split="test" if options.test_only else piece.split,
                    style=piece.style, work=piece.work, works=answer.works,
                )  # fmt: skip
                report.add(answer)
            progress(done, len(pieces))


def _licence(root: Path) -> Path | None:
    """Return the source's licence, if it has one in its top folder, or in the only folder there."""
    tops = [root, *(path for path in sorted(root.iterdir()) if path.is_dir())]
    for top in tops[: 2 if len(tops) == 2 else 1]:  # archives often hold a single folder
        for file in (top / name for name in LICENCES):
            # It is copied to the set and its models, so links must not lead to private files.
            inside = file.resolve().is_relative_to(root.resolve())
            if inside and file.is_file() and os.access(file, os.R_OK):
                return file
    return None
