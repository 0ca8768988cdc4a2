"""Training from prepared data needs few packages: it runs where no MIDI library, no app and no plots are installed."""

import os
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.training.makers import toy_file

NEEDED = ("torch", "numpy", "safetensors", "lightning-fabric", "pyyaml", "rich")
CHILD = """
import sys
hidden = sys.argv[1].split(",")
sys.modules.update(dict.fromkeys(hidden))  # importing one of them fails
from app.cli import main
code = main(sys.argv[2:])
assert not [name for name in hidden if sys.modules.get(name)]
sys.exit(code)
"""


def with_requirements(names: tuple[str, ...]) -> set[str]:
    """Return distributions and what they need in turn, without extras."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(canonicalize_name(requirement.name))
    return found


def test_a_run_from_prepared_data_needs_six_packages(pianos: Path, tmp_path: Path):
    allowed = with_requirements(NEEDED) | {"musicgen"}
    hidden = sorted(
        module
        for module, distributions in packages_distributions().items()
        if not allowed & {canonicalize_name(name) for name in distributions}
        and not module.startswith("_")
    )
    assert {"symusic", "miditoolkit", "matplotlib", "gradio", "tensorboard"} <= {*hidden}
    changes = {"optimiser": {"steps": 2}, "validation": {"samples": 1, "sample_tokens": 40}}
    path = toy_file(tmp_path, pianos, **changes)
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, ",".join(hidden), "train", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parent.parent.parent,
    )
    assert child.returncode == 0, child.stderr
    assert "validation loss" in child.stdout
    assert child.stderr.count("No samples of music are written: ") == 1
    assert "No curves are drawn: matplotlib is not installed here." in child.stderr
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()
