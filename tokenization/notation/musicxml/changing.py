"""Apply a user's changes to a MusicXML score (`tokenization/changes.py`) element by element, and keep all others."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any

from tokenization import changes
from tokenization.changes import Change, Reading
from tokenization.limits import NoNotes
from tokenization.notation.musicxml import note_changes, sign_changes, track_changes
from tokenization.notation.musicxml.elements import OpenScore

ACTS: dict[type[Change], Callable[[OpenScore, Any], None]] = {
    changes.ChangeNotes: note_changes.change_notes,
    changes.Transpose: note_changes.transpose,
    changes.Velocity: note_changes.scale_velocities,
    changes.Delete: note_changes.delete,
    changes.Tempo: sign_changes.set_tempo,
    changes.Key: sign_changes.set_key,
    changes.Metre: sign_changes.set_metre,
    changes.Chords: sign_changes.set_chords,
    changes.Cut: sign_changes.cut,
    changes.Program: track_changes.set_program,
    changes.Volume: track_changes.set_volume,
    changes.Controllers: track_changes.add_controllers,
    changes.Name: track_changes.set_name,
    changes.Order: track_changes.reorder,
    changes.Drop: track_changes.drop,
}


def changed_musicxml(
    data: bytes, made: Sequence[Change], reading: Reading | None
) -> tuple[bytes, Reading]:
    """Return a score with changes, and its reading; raises NotKept if it cannot hold them, ValueError if wrong."""
    score = OpenScore(data, reading)
    for change in made:
        score.check(change)
        try:
            ACTS[type(change)](score, change)
        except NoNotes:
            raise ValueError("no notes would be left; keep at least one") from None
    text = ET.tostring(score.root, encoding="UTF-8", xml_declaration=True) + b"\n"
    return text, score.reading
