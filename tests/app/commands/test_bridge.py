"""`musicgen bridge`."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.commands import bridge


def test_each_script_goes_where_its_program_looks(command, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(bridge.sys, "platform", "linux")
    for name, one in bridge.BRIDGES.items():
        out, err = command("bridge", "install", name)
        path = Path(out.strip())
        assert path == bridge.folder_of(one) / one.file
        assert path.is_relative_to(tmp_path)
        assert one.then in " ".join(err.split())
        assert path.read_text() == bridge.script(one.file)
    listed = command("bridge", "list").out.splitlines()
    assert [line.split(":")[0] for line in listed] == [*bridge.BRIDGES]
    assert all(line.endswith("(installed)") for line in listed)


def test_a_changed_script_is_left_unless_the_user_agrees(command, refused, tmp_path, monkeypatch):
    place = ("bridge", "install", "reaper", "--folder", tmp_path)
    command(*place)
    path = tmp_path / "musicgen_reaper.lua"
    command(*place)  # it is the same
    path.write_text("-- mine")
    assert "was left as it is; --yes overwrites it" in refused(*place)
    monkeypatch.setattr(bridge.sys.stdin, "isatty", lambda: True, raising=False)
    for said, kept in (("", True), ("n", True), ("y", False)):
        monkeypatch.setattr("builtins.input", lambda _, said=said: said)
        if kept:
            refused(*place)
        else:
            command(*place)
        assert (path.read_text() == "-- mine") == kept
    path.write_text("-- mine")
    command(*place, "--yes")
    assert path.read_text() == bridge.script("musicgen_reaper.lua")


@pytest.mark.parametrize("name", ["musicgen.qml", "musicgen_reaper.lua", "musicgen_ardour.lua"])
def test_scripts_are_complete_and_know_the_program(name: str, monkeypatch):
    monkeypatch.setattr(bridge, "program", lambda: 'C:\\Program Files\\"x"\\musicgen.exe')
    text = bridge.script(name)
    assert "-- include" not in text
    assert text.count(r'"C:\\Program Files\\\"x\"\\musicgen.exe"') == 1
    if name.endswith(".lua") and (luac := shutil.which("luac5.4")):
        subprocess.run([luac, "-p", "-"], input=text.encode(), check=True)


def test_the_page_of_the_bridges_names_each_of_them():
    text = (bridge.SCRIPTS / "README.md").read_text()
    assert re.findall(r"`musicgen bridge install (\w+)`", text) == [*bridge.BRIDGES]
