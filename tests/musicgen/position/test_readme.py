import re
from importlib import import_module
from pathlib import Path

import torch

import musicgen.position
from musicgen.position import POSITIONS, Shape

README = (Path(musicgen.position.__file__).parent / "README.md").read_text(encoding="utf-8")


def test_table_names_every_encoding_and_its_file() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| `([\w/]+)\.py` \|$", README, re.MULTILINE)
    assert [name for name, _ in rows] == list(POSITIONS)
    for name, file in rows:
        assert import_module(f"musicgen.position.{file.replace('/', '.')}").__name__ in (
            POSITIONS[name][1].__module__,
            "musicgen.position.base",
        )


def test_the_example_works(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "fade_of_readme.py").write_text(README.split("```python\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    example = import_module("fade_of_readme")
    shape = Shape(layers=1, heads=3, head_width=4, width=12, features=4)
    decay = example.Fade(example.FadeConfig(half_life=2.0), shape).decay
    torch.testing.assert_close(decay, torch.full((3,), 0.5**0.5))
