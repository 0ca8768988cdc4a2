"""`musicgen bridge`: puts the scripts for other music programs where these look for them."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from app import output

EXAMPLES = """\
examples:
  musicgen bridge list
  musicgen bridge install musescore
  musicgen bridge install reaper --folder ~/Scripts
"""
SCRIPTS = Path(__file__).parents[2] / "bridges"
INCLUDED = re.compile(r"^-- include (\w+\.lua)\n", re.M)
SET_PROGRAM = re.compile(r'(\bprogram(?:: | = ))"musicgen"')  # in QML, and in Lua


@dataclass(frozen=True, kw_only=True)
class Bridge:
    """A script for a program: where it looks for scripts, by system, and what to do there."""

    file: str
    program: str
    folders: dict[str, str]
    then: str


BRIDGES = {
    "musescore": Bridge(
        file="musicgen.qml",
        program="MuseScore 3",
        folders=dict.fromkeys(("linux", "darwin", "win32"), "~/Documents/MuseScore3/Plugins"),
        then="In Plugins > Plugin Manager, tick musicgen; then select bars and choose Plugins > musicgen.",
    ),
    "reaper": Bridge(
        file="musicgen_reaper.lua",
        program="REAPER",
        folders={
            "linux": "~/.config/REAPER/Scripts",
            "darwin": "~/Library/Application Support/REAPER/Scripts",
            "win32": "~/AppData/Roaming/REAPER/Scripts",
        },
        then="In Actions > Show action list, load it by New action; then select items and run it.",
    ),
    "ardour": Bridge(
        file="musicgen_ardour.lua",
        program="Ardour 7",
        folders={
            "linux": "~/.config/ardour7/scripts",
            "darwin": "~/Library/Preferences/Ardour7/scripts",
            "win32": "~/AppData/Local/ardour7/scripts",
        },
        then="In Edit > Lua Scripts > Script Manager, add musicgen to a free action; then select a range and run it.",
    ),
}


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    actions.add_parser("list", help="list the programs, and where their scripts go")
    install = actions.add_parser("install", help="put the script where the program looks for it")
    install.add_argument("program", choices=[*BRIDGES], help="the program")
    install.add_argument(
        "--folder", type=Path, metavar="DIR", help="put it there (default: the program's folder)"
    )
    install.add_argument("--yes", action="store_true", help="overwrite a changed script unasked")


def run(arguments: argparse.Namespace) -> None:
    """List the bridges, or install one."""
    from tokenization.whole_file import make_folder, write_text

    if arguments.action == "list":
        for name, bridge in BRIDGES.items():
            path = folder_of(bridge) / bridge.file
            state = "installed" if path.exists() else "not installed"
            output.write(f"{name}: {bridge.program}, {path} ({state})")
        return
    bridge = BRIDGES[arguments.program]
    path = (arguments.folder or folder_of(bridge)).expanduser() / bridge.file
    text = script(bridge.file)
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") != text:
        agreed = arguments.yes or _agrees(f"{path} exists and differs. Overwrite it? [y/N] ")
        if not agreed:
            raise ValueError(f"{path} exists and was left as it is; --yes overwrites it")
    make_folder(path.parent, "give another one with --folder")
    write_text(path, text)
    output.write(str(path))
    output.remark([bridge.then])


def folder_of(bridge: Bridge) -> Path:
    """Return where a program looks for scripts on this system."""
    system = sys.platform if sys.platform in bridge.folders else "linux"
    return Path(bridge.folders[system]).expanduser()


def script(name: str) -> str:
    """Return a script with what it includes, and the path of this program."""
    text = (SCRIPTS / name).read_text(encoding="utf-8")
    text = INCLUDED.sub(lambda found: f"{_included(found[1])}\n", text)
    path = json.dumps(program(), ensure_ascii=False)
    return SET_PROGRAM.sub(lambda found: f"{found[1]}{path}", text, count=1)


def _included(name: str) -> str:
    return (SCRIPTS / name).read_text(encoding="utf-8").strip()


def program() -> str:
    """Return the path of this program, which the scripts start if no server runs."""
    beside = Path(sys.executable).with_name("musicgen.exe" if os.name == "nt" else "musicgen")
    return str(beside) if beside.exists() else shutil.which("musicgen") or "musicgen"


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(question).strip().lower() in ("y", "yes")
