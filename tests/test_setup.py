"""Installation: the right torch, recovery from an interrupted set-up, and a complete source distribution."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.tools.house import ROOT

CPU = "--index-url https://download.pytorch.org/whl/cpu"
# A fake Python that logs its arguments; `-m venv` copies it.
STAND_IN = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *"-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
  *"config list") echo "$CONFIGURED";;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def made(clone: Path, *arguments: str, target: str = "install", **environment: str) -> str:
    environment = {**os.environ, "MAKEFLAGS": "", **environment}
    words = ["make", target, *arguments]
    done = subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one build of torch")
@pytest.mark.parametrize(
    ("gpu", "configured", "index"),
    [
        (False, "global.cert='/etc/index-url=x'", CPU),
        (True, "", ""),
        (False, ":env:.index-url='https://mirror/simple'", ""),
        (False, "global.find-links='/wheels'", ""),
    ],
)
def test_torch_is_from_the_cpu_index_without_a_gpu_or_another_index(clone, gpu, configured, index):
    programs = clone / "programs"
    programs.mkdir()
    for name in ("make", "uname", "grep", "mkdir", "cp", "touch", *(["true"] if gpu else [])):
        (programs / name.replace("true", "nvidia-smi")).symlink_to(str(shutil.which(name)))
    python = programs / "python"
    python.write_text(STAND_IN.format(log=clone / "log"))
    python.chmod(0o755)
    made(clone, f"PYTHON={python}", PATH=str(programs), CONFIGURED=configured)
    (line,) = [line for line in (clone / "log").read_text().splitlines() if "torch==" in line]
    assert " ".join(line.partition("--quiet")[2].split()[:-1]) == index


def test_the_app_is_set_up_without_torch(clone: Path):
    plan = made(clone, "-n", target="app", PYTHON=sys.executable)
    assert "--editable '.[app]'" in plan
    assert "torch" not in plan
    assert "--editable '.[dev]'" in made(clone, "-n", PYTHON=sys.executable)


def test_an_interrupted_set_up_starts_over(clone: Path):
    venv = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (venv / ".app").touch()
    (venv / ".installed").touch()
    assert "-m venv --clear" in made(clone, "-n"), "no pip"
    for name in ("pip", "numpy"):
        (packages / f"{name}-1.dist-info").mkdir()
        (packages / f"{name}-1.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        assert "-m venv --clear" in made(clone, "-n"), f"incomplete {name}"
        (packages / f"{name}-1.dist-info" / "INSTALLER").write_text("pip\n")
        assert "-m venv" not in made(clone, "-n")
    for link in (venv / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/gone/python")
    assert "-m venv --clear" in made(clone, "-n"), "its Python is gone"


def test_the_source_distribution_is_complete(tmp_path: Path):
    pytest.importorskip("setuptools")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git clone")
    ours = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    for name in ours:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    built = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
    subprocess.run([sys.executable, "-c", built], cwd=tmp_path, check=True, capture_output=True)
    with tarfile.open(next((tmp_path / "dist").iterdir())) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert ours - packed == set()
