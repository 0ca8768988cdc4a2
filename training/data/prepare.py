"""From a folder of music to the prepared form, on all cores, with the same bytes on any number of them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from musicgen.common.processes import processors
from musicgen.common.program import program
from musicgen.common.workers.pool import Workers, in_order
from musicgen.common.workers.process import Failed
from tokenization.language import Encoded, Language, language
from tokenization.set_description import read_meta
from training.data.archive import unpacked
from training.data.report import PrepareReport
from training.data.sources import SOURCES, recognise
from training.data.sources.listing import Listing, Skipped, list_files
from training.data.sources.source import Found, Piece, Source
from training.data.sources.works import split_works
from training.data.writer import PreparedWriter, check_destination

# What stands in the source's top folder under these names goes beside the prepared set.
_NOTICES = {
    **dict.fromkeys(("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING"), "LICENSE"),
    **dict.fromkeys(("README.md", "README.txt", "README"), "SOURCE.md"),
}

BY_WORKS = "ensemble"  # languages of this family hold out works, the others pieces by their names
LIMIT_SECONDS = 300.0  # of processor time; no file takes as long
MEMORY_BYTES = 2 << 30  # … or more than this, beyond what the program takes

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """How a data set is prepared."""

    language: str | None = None  # by default the source's
    validation: float = (
        0.05  # share held out where the source has no split; of works, for test again
    )
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
    losses: Counter[str]
    remarks: tuple[str, ...]
    digest: bytes  # of the tokens
    works: tuple[str, ...] = ()  # the keys of the work, where pieces are held out by works


def prepare(
    source: str,
    folder: Path,
    destination: Path,
    options: PrepareOptions | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Prepare a source's folder or archive; return the description of the set."""
    options = options or PrepareOptions()
    kind = SOURCES[source]
    speaks = language(options.language or kind.language)
    check_destination(destination, replace=options.replace)
    with unpacked(folder) as (root, left_out):
        listing = list_files(root)
        found = _find(kind, listing, folder, options)
        report = PrepareReport([*left_out, *listing.unreadable, *found.skipped], found.remarks)
        with PreparedWriter(destination, replace=options.replace) as writer:
            _fill(writer, report, found, partial(spell, kind.name, speaks.name), options, progress)
            _check_filled(writer, report, found, folder)
            if speaks.family == BY_WORKS:
                _hold_out(writer, kind, options)
            meta = _meta(kind, speaks, folder, options, report)
            writer.commit(meta, _notices(root))
    return read_meta(destination)


def spell(source: str, language_name: str, piece: Piece) -> Spelled | Skipped:
    """Read a piece and spell it: what a worker does."""
    speaker = language(language_name)
    try:
        scores = SOURCES[source].scores(piece, speaker)
        spellings = [speaker.encode(score) for score in scores]
        by_works = speaker.family == BY_WORKS
        works = SOURCES[source].works(piece, scores[0]) if by_works else []
    except (ValueError, OSError) as error:
        # The folder may be a passing one, and where it lies is nobody's business.
        return Skipped(piece.name, str(error).replace(str(piece.path), piece.name))
    except MemoryError:
        return Skipped(piece.name, "reading it takes more memory than there is")
    digest = hashlib.sha256()
    for spelling in spellings:
        digest.update(spelling.ids.tobytes())
    return Spelled(
        rows=spellings,
        losses=sum((Counter(s.losses) for s in spellings), Counter()),
        remarks=tuple(dict.fromkeys(remark for score in scores for remark in score.remarks)),
        digest=digest.digest(),
        works=tuple(works),
    )


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
        limit_seconds=LIMIT_SECONDS,
        memory_bytes=MEMORY_BYTES,
    )
    with closing(answered) as answers:
        for done, (piece, answer) in enumerate(zip(found.pieces, answers, strict=True), 1):
            _take(writer, report, piece, answer)
            progress(done, total)


def _take(
    writer: PreparedWriter, report: PrepareReport, piece: Piece, answer: Spelled | Skipped | Failed
) -> None:
    if isinstance(answer, Failed | Skipped):
        report.skip(piece.name, answer.reason)
    elif twin := report.twin(piece.name, answer.digest):
        # In two splits it would be tested on what was learned.
        report.skip(piece.name, f"it has the same notes as {twin}")
    else:
        kind = {"split": piece.split, "style": piece.style}
        writer.add(piece.name, answer.rows, **kind, work=piece.work, works=answer.works)
        report.take(answer.losses, answer.remarks)


def _hold_out(writer: PreparedWriter, kind: Source, options: PrepareOptions) -> None:
    """Give the pieces of a source without splits of its own those of their works."""
    names = writer.names_of_works
    if all(names):
        share, by_name = options.validation, kind.by_name
        writer.hold_out(split_works(names, writer.works, share, by_name=by_name))


def _check_filled(
    writer: PreparedWriter, report: PrepareReport, found: Found, folder: Path
) -> None:
    if writer.files:
        return
    first = (
        f"; the first, {report.skipped[0].name}: {report.skipped[0].reason}"
        if report.skipped
        else ""
    )
    raise ValueError(f"none of the {len(found.pieces)} pieces of {folder} could be prepared{first}")


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
