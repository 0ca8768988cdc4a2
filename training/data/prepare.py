"""From a folder of music to the prepared form, on all cores, with the same bytes on any number of them."""

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
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from musicgen.common.processes import full_disk_named, held, processors, program
from musicgen.common.workers import Bounds, Failed, Workers, in_order
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
from tokenization.whole_file import make_folder, sync
from training.data.archive import unpacked
from training.data.sources import SOURCES, recognise
from training.data.sources.source import Found, Listing, Piece, Skipped, Source, list_files
from training.data.sources.works import opening, split_works

# The report on a prepared set: what was skipped, lost and assumed, over all of its files.

MOST_REMARKS = 50  # kinds of remarks that are kept
# What differs between two remarks of a kind: numbers, names in quotes, and what a colon introduces.
_PARTICULAR = re.compile(r"\d+(?:[.,]\d+)*|'[^']*'|(?<=:) .*")


@dataclass
class PrepareReport:
    """Grows file by file."""

    skipped: list[Skipped]
    notes: list[str]  # on the source as a whole
    losses: Counter[str] = field(default_factory=Counter)
    _twins: dict[bytes, str] = field(default_factory=dict)  # digest of the tokens → file
    _files: Counter[str] = field(default_factory=Counter)  # of each kind of remark
    _examples: dict[str, str] = field(default_factory=dict)

    def twin(self, name: str, rows: Sequence[Encoded]) -> str | None:
        """Return the file that had the same tokens, or None for the first that has them."""
        digest = hashlib.sha256(b"".join(row.ids.tobytes() for row in rows)).digest()
        first = self._twins.setdefault(digest, name)
        return None if first == name else first

    def take(self, spelled: Spelled) -> None:
        """Count what one file lost, and its remarks; those that differ in particulars are one kind."""
        for row in spelled.rows:
            self.losses += Counter(row.losses)
        kinds = {_PARTICULAR.sub("#", remark): remark for remark in spelled.remarks}
        for kind, remark in kinds.items():
            self._files[kind] += 1
            self._examples.setdefault(kind, remark)

    def meta(self) -> dict[str, Any]:
        """Return it as plain data, the most frequent kinds of remarks first."""
        return {
            "notes": self.notes,
            "losses": dict(sorted(self.losses.items())),
            "remarks": [
                {"example": self._examples[kind], "files": files}
                for kind, files in self._files.most_common(MOST_REMARKS)
            ],
            "skipped": [asdict(skipped) for skipped in self.skipped],
        }


# A prepared data set, written: in a hidden folder first, and put in its place when whole.

ELSEWHERE = "name another place for the set"


class PreparedWriter:
    """Takes files in order, in bounded memory; `commit` makes the set, anything else leaves no trace.

    The set grows in a hidden folder next to the destination, so that putting it in place is a
    rename. A set that stands there is moved aside for that moment; should the machine stop right
    then, the next run puts it back.
    """

    def __init__(self, destination: Path, *, replace: bool) -> None:
        self.destination = Path(os.path.realpath(destination))
        self._part = self.destination.with_name(f".{self.destination.name}.part")
        self._old = self.destination.with_name(f".{self.destination.name}.old")
        self._replace = replace
        self._is_in_place = False
        self._digest = hashlib.sha256()
        self._tokens = 0
        self._rows: list[tuple[int, int, int]] = []  # length, notes, file
        self._bars: list[np.ndarray] = []
        self._names: list[str] = []
        self._splits: list[str] = []  # of each file
        self._styles: list[str] = []
        self.names_of_works: list[str] = []  # of each file, in its source
        self.works: list[tuple[str, ...]] = []  # the keys of each file's work

    def __enter__(self) -> PreparedWriter:
        with self._disk():
            make_folder(self.destination.parent, ELSEWHERE)
            if self._old.is_dir() and not self.destination.exists():
                self._old.rename(self.destination)
            check_destination(self.destination, replace=self._replace)
            make_folder(self._part, ELSEWHERE, for_=self.destination)
            self._lock = held(
                self._part, f"another run is writing {self.destination} at this moment"
            )
            for left in self._part.iterdir():  # of a run that was killed
                left.unlink()
            self._file = (self._part / TOKENS_FILE).open("wb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # a full disk complains again
            self._file.close()
        if not self._is_in_place:  # else the next run may be filling a folder of that name
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
        self.names_of_works.append(work)
        self.works.append(works)

    def hold_out(self, share: float, *, by_name: bool) -> None:
        """Give each file the split of its work."""
        self._splits = split_works(self.names_of_works, self.works, share, by_name=by_name)

    def commit(self, meta: dict[str, Any], notices: Sequence[tuple[Path, str]] = ()) -> None:
        """Put the set in its place, with its description and copies of the source's notices."""
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
            if not any(self.works):  # as sets were before there were any
                del columns["works"]
            _save(self._part / PIECES_FILE, columns)
            text = json.dumps(meta, indent=1, ensure_ascii=False) + "\n"
            (self._part / META_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")
            for source, name in notices:
                shutil.copyfile(source, self._part / name)
            for path in [*self._part.iterdir(), self._part]:
                sync(path)
            self._swap()

    def _swap(self) -> None:
        check_destination(self.destination, replace=self._replace)
        shutil.rmtree(self._old, ignore_errors=True)
        if self.destination.exists():
            self.destination.rename(self._old)
        self._part.rename(self.destination)
        self._is_in_place = True
        sync(self.destination.parent)
        shutil.rmtree(self._old, ignore_errors=True)

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
            self.destination.parent, "write the data set elsewhere (nothing was changed)"
        )


def _counts(pieces: Pieces) -> dict[str, dict[str, int]]:
    """Return how much there is, by split."""
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
    """Write columns as numpy's npz; its own `savez` cannot have a column called `file`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, column, allow_pickle=False)


def check_destination(destination: Path, *, replace: bool) -> None:
    """Raise ValueError where writing would overwrite what is not ours to overwrite."""
    if not destination.exists():
        return
    if not destination.is_dir():
        raise ValueError(f"{destination} is a file; give a folder to write the data set to")
    if not any(destination.iterdir()):
        return
    try:
        meta = read_meta(destination)
    except ValueError:
        raise ValueError(
            f"{destination} is not empty and holds no prepared data set; "
            "choose a new folder, nothing was written"
        ) from None
    if not replace:
        raise ValueError(
            f"{destination} already holds a prepared data set of {meta['tokens']} tokens; "
            "choose another folder, or replace it with --force"
        )


# What stands in the source's top folder under these names is copied into the prepared set.
_NOTICES = {
    **dict.fromkeys(("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING"), "LICENSE"),
    **dict.fromkeys(("README.md", "README.txt", "README"), "SOURCE.md"),
}

BY_WORKS = "ensemble"  # this language holds out works, the others pieces by their names
LIMIT_SECONDS = 300.0  # of processor time; no file takes as long
MEMORY_BYTES = 2 << 30  # … or more than this, beyond what the program takes

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """How a data set is prepared."""

    language: str | None = None  # by default the source's
    validation: float = 0.05  # held out where the source has no split; of works, for test again
    test_only: bool = False  # all pieces are held out, whatever split they are in
    workers: Workers | None = None  # by default one a processor; 0 works in this process
    replace: bool = False  # a prepared set that stands in the destination
    title: str | None = None  # by default the source's
    licence: str | None = None  # … and what is known of the licence of such sources

    def __post_init__(self) -> None:
        if not 0 <= self.validation <= 0.45:
            raise ValueError(f"a share of {self.validation:g} is held out; 0 to 0.45 can be")
        if isinstance(self.workers, int) and self.workers < 0:
            raise ValueError(f"{self.workers} workers cannot be; 0 or more can")


@dataclass(frozen=True, kw_only=True)
class Spelled:
    """What a worker made of a piece."""

    rows: list[Encoded]
    remarks: tuple[str, ...]
    works: tuple[str, ...] = ()  # the keys of the work, where pieces are held out by works


def prepare(
    source: str,
    folder: Path,
    destination: Path,
    options: PrepareOptions,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Prepare a source's folder or archive; return the description of the set."""
    kind = SOURCES[source]
    speaks = language(options.language or kind.language)
    check_destination(destination, replace=options.replace)
    with unpacked(folder) as (root, left_out):
        listing = list_files(root)
        found = _find(kind, listing, folder, options)
        report = PrepareReport([*left_out, *listing.unreadable, *found.skipped], found.remarks)
        with PreparedWriter(destination, replace=options.replace) as writer:
            _fill(writer, report, found, partial(spell, kind.name, speaks.name), options, progress)
            if not writer.works:
                first = "".join(
                    f"; the first, {one.name}: {one.reason}" for one in report.skipped[:1]
                )
                raise ValueError(
                    f"none of the {len(found.pieces)} pieces of {folder} could be prepared{first}"
                )
            # Without splits of its own, a source's pieces have those of their works.
            if speaks.name == BY_WORKS and all(writer.names_of_works) and not options.test_only:
                writer.hold_out(options.validation, by_name=kind.by_name)
            meta = _meta(kind, speaks, folder, options, report)
            writer.commit(meta, _notices(root))
    return read_meta(destination)


def spell(source: str, language_name: str, piece: Piece) -> Spelled | Skipped:
    """Read a piece and spell it: what a worker does."""
    speaker = language(language_name)
    try:
        scores = SOURCES[source].scores(piece, speaker)
        spellings = [speaker.encode(score) for score in scores]
        works: list[str] = []
        if speaker.name == BY_WORKS and piece.work:
            works = [*opening(scores[0]), *SOURCES[source].titles(piece)]
    except (ValueError, OSError) as error:
        # The folder may be a passing one, and where it lies is nobody's business.
        return Skipped(piece.name, str(error).replace(str(piece.path), piece.name))
    except MemoryError:
        return Skipped(piece.name, "reading it takes more memory than there is")
    remarks = dict.fromkeys(remark for score in scores for remark in score.remarks)
    return Spelled(rows=spellings, remarks=tuple(remarks), works=tuple(works))


def _find(kind: Source, listing: Listing, folder: Path, options: PrepareOptions) -> Found:
    """Return the source's pieces; a folder of another shape raises ValueError."""
    if not listing.files:
        raise ValueError(f"{folder} is empty; {kind.title} would be {kind.shape}")
    if not kind.fits(listing):
        other = recognise(listing)
        hint = (
            f"it looks like {other.title}, which `musicgen data {other.name}` reads"
            if other
            else "it holds no music that can be read"
        )
        raise ValueError(f"{folder} is not {kind.title} ({kind.shape}): {hint}")
    found = kind.find(listing, options.validation)
    likely = recognise(listing) or kind
    if kind.name == "midi" and likely is not kind:
        found.remarks.append(
            f"It looks like {likely.title}: `musicgen data {likely.name}` may read it better."
        )
    return found


def _fill(
    writer: PreparedWriter,
    report: PrepareReport,
    found: Found,
    work: Callable[[Piece], Spelled | Skipped],
    options: PrepareOptions,
    progress: Progress,
) -> None:
    total = len(found.pieces)
    workers = processors() if options.workers is None else options.workers
    progress(0, total)
    answered = in_order(
        work,
        found.pieces,
        workers=workers if isinstance(workers, str) else min(workers, total),
        bounds=Bounds(seconds=LIMIT_SECONDS, memory_bytes=MEMORY_BYTES),
    )
    with closing(answered) as answers:
        for done, (piece, answer) in enumerate(zip(found.pieces, answers, strict=True), 1):
            split = "test" if options.test_only else piece.split
            _take(writer, report, replace(piece, split=split), answer)
            progress(done, total)


def _take(
    writer: PreparedWriter, report: PrepareReport, piece: Piece, answer: Spelled | Skipped | Failed
) -> None:
    if isinstance(answer, Failed | Skipped):
        report.skipped.append(Skipped(piece.name, answer.reason))
    elif twin := report.twin(piece.name, answer.rows):
        # In two splits it would be tested on what was learned.
        report.skipped.append(Skipped(piece.name, f"it has the same notes as {twin}"))
    else:
        kind = {"split": piece.split, "style": piece.style}
        writer.add(piece.name, answer.rows, **kind, work=piece.work, works=answer.works)
        report.take(answer)


def _meta(
    kind: Source, speaks: Language, folder: Path, options: PrepareOptions, report: PrepareReport
) -> dict[str, Any]:
    """Return the description of the set, as far as it does not follow from the rows."""
    return {
        "tool": program(),
        "source": {
            "name": kind.name,
            "title": options.title or kind.title,
            "folder": folder.resolve().name,
            "licence": options.licence or kind.licence,
        },
        "language": speaks.spec(),
        "vocabulary": speaks.vocabulary.to_json(),
        "validation": options.validation,
        "style": kind.style,
        **report.meta(),
    }


def _notices(root: Path) -> list[tuple[Path, str]]:
    """Return what the source says about itself and its licence, and under which name to keep it."""
    tops = [root, *(path for path in sorted(root.iterdir()) if path.is_dir())]
    notices: dict[str, Path] = {}
    for top in tops[: 2 if len(tops) == 2 else 1]:  # archives hold all in one folder
        for name, kept in _NOTICES.items():
            # A link may lead to what is nobody's to hand on: it goes with the set, and with its models.
            inside = (top / name).resolve().is_relative_to(root.resolve())
            if inside and (top / name).is_file() and os.access(top / name, os.R_OK):
                notices.setdefault(kept, top / name)
    return [(path, name) for name, path in notices.items()]
