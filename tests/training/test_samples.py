from pathlib import Path

import pytest

from tests.training.makers import toy_config, toy_run
from tokenization.midi.reading import read_midi
from training.samples import write_samples


@pytest.mark.parametrize("spoken", ["pianos", "grooves"])
def test_samples_are_music(spoken: str, tmp_path: Path, request: pytest.FixtureRequest):
    run = toy_run(toy_config(tmp_path, request.getfixturevalue(spoken)))
    run.model.eval()
    language = run.batches.language
    paths = write_samples(run.model, language, tmp_path / "a", 7, count=2, tokens=60)
    assert [path.name for path in paths] == ["00000007_0.mid", "00000007_1.mid"]
    for path in paths:
        assert len(read_midi(path).notes)
    again = write_samples(run.model, language, tmp_path / "b", 7, count=2, tokens=60)
    assert [p.read_bytes() for p in again] == [p.read_bytes() for p in paths]


def test_what_has_no_note_is_no_file(pianos: Path, tmp_path: Path):
    run = toy_run(toy_config(tmp_path, pianos))
    run.model.eval()
    paths = write_samples(run.model, run.batches.language, tmp_path / "a", 7, count=2, tokens=1)
    assert paths == list((tmp_path / "a").iterdir()) == []
