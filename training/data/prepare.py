"""Prepare a data set from a folder of music, in parallel; the bytes do not depend on the number of processes."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from musicgen.pieces import program
from tokenization.language import Encoded, Language, language
from tokenization.prepared import (
    read_meta,
)
from tokenization.processes import processors
from tokenization.workers import Bounds, Failed, Workers, in_order
from training.data.archive import unpacked
from training.data.sources import SOURCES
from training.data.sources.source import Piece, Skipped, Source, list_files
from training.data.sources.works import opening
from training.data.writer import PreparedWriter, check_destination

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
    exactly: bool = False  # hold out just this fraction of the works, at least one, and no test
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
            by_works = target.name == BY_WORKS or options.exactly
            if by_works and all(writer.work_names) and not options.test_only:
                writer.split_by_works(
                    options.validation, by_name=kind.by_name, exactly=options.exactly
                )
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
