"""Children are started so that nothing of the folder in which somebody stands is executed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OURS = ("app", "evaluation", "midirenderer", "musicgen", "numpy", "tokenization", "training")
STARTS = {
    "sound": "from pathlib import Path; from app.audio import render_to; from app.web.offered_models import example; "
    "render_to(Path('sound.wav'), example('trio-jazz'))",
    "bench": "from evaluation.speed.bench import _in_child; _in_child('no such work')",
    "workers": "from musicgen.common.workers.pool import in_order; print(list(in_order(abs, [-7], workers=1)))",
}


@pytest.mark.parametrize("what", STARTS)
def test_no_module_of_the_current_folder_is_executed(what: str, tmp_path: Path):
    script, folder, sprung = tmp_path / "own" / "enter.py", tmp_path / "stranger", tmp_path / "it"
    script.parent.mkdir()
    folder.mkdir()
    # The parent looks where this test does, and not in the folder: what it starts is what is tried.
    enter = f"import sys; sys.path = {[str(ROOT), *filter(None, sys.path)]!r}"
    script.write_text(f"if __name__ == '__main__':\n    {enter}\n    {STARTS[what]}\n")
    for name in {*OURS, *sys.stdlib_module_names}:
        (folder / f"{name}.py").write_text(f"open({str(sprung)!r}, 'a').write('{name} ')\n")
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not sprung.exists(), sprung.read_text()
    if what == "workers":
        assert ended.stdout == "[7]\n", ended.stderr
