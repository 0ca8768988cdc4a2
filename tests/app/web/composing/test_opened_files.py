"""Files that a person opens: what each is said to be, by its name where its bytes do not say."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.web.api import DeskApi
from app.web.composing.opened_files import FileReader
from tokenization.language import language

SAMPLING = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "seed": 1}


@pytest.mark.parametrize(
    ("name", "data", "wrong"),
    [
        ("tune.abc", b"X:1\nT:Without a key\nCDE|\n", "holds no notes"),
        ("TUNE.ABC", b"\xff\xfb\x90d", "is an MP3 recording, not an ABC file"),
        ("lied.musicxml", b"no score", "is damaged at line 1"),
        ("lied.mxl", b"%PDF-1.4", "is a PDF document, not a score"),
    ],
)
def test_a_file_is_told_to_be_none_of_the_kind_that_its_name_says(
    name: str, data: bytes, wrong: str
):
    with pytest.raises(ValueError, match=f"^“{name}” {wrong}") as raised:
        FileReader().open(data, name, language("remi"))
    assert "MIDI file" not in str(raised.value)


def test_a_piece_that_was_renamed_is_of_the_kind_that_was_sent(tmp_path: Path):
    named = []

    def write(asker: object, wanted: object, data: bytes, name: str, job: str) -> Any:
        named.append(name)
        return iter(())

    visitors = SimpleNamespace(asker=lambda request: None)
    api = DeskApi(cast("Any", SimpleNamespace(write=write)), cast("Any", visitors))
    plain = {"model": "", "bars": 1, "variations": 1, "sampling": SAMPLING, "title": "No. 5"}
    for name in ("tune.abc", "a.mid", "nothing"):
        (tmp_path / name).write_bytes(b"X:1")
        assert [*api.write(str(tmp_path / name), plain, "", cast("Any", None))] == []
    assert named == ["No. 5.abc", "No. 5.mid", "No. 5."]
