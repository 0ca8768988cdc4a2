import ast
import subprocess
import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from app.cli import COMMANDS, LONGEST_MESSAGE, NO_MEMORY, main
from app.commands.evaluate.evaluate import EVALUATIONS
from training.data.sources import SOURCES


@pytest.fixture
def try_(monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs a command made of a function."""

    def run(does) -> int:
        module: Any = types.ModuleType("app.commands.try")
        module.add = lambda parser: parser.add_argument("--number", type=int)
        module.EXAMPLES, module.run = "", does
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(COMMANDS, "try", (module.__name__, "try something"))
        return main(["try"])

    return run


def raising(error: BaseException):
    def fail(arguments: object) -> None:
        raise error

    return fail


def test_help_lists_all_commands_and_imports_none():
    """Only the program itself and cheap modules of the standard library are imported, since imports take the time."""
    code = (
        "import sys\n"
        "before = {*sys.modules}\n"
        "import app.cli\n"
        "app.cli.main(['--help'])\n"
        "own = {name for name in {*sys.modules} - before if name.split('.')[0] not in sys.stdlib_module_names}\n"
        "slow = {'asyncio', 'email', 'http', 'multiprocessing', 'unittest', 'urllib'} & {*sys.modules} - before\n"
        "sys.exit(' '.join(sorted(own - {'app', 'app.cli', 'app.output'} | slow)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())  # on a narrow terminal, lines are broken
    for name, (_, does) in COMMANDS.items():
        assert f" {name} {does}" in shown


@pytest.mark.parametrize(
    "name", [*COMMANDS, *(f"evaluate {n}" for n in EVALUATIONS), *(f"data {n}" for n in SOURCES)]
)
def test_each_command_has_help_with_an_example(name: str, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = command(*name.split(), "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert f"usage: musicgen {name} " in shown
    assert f"  musicgen {name} " in shown.partition("\nexample")[2]


def test_a_command_that_ends_a_piece_does_not_offer_to_end_it(command):
    listed = {name: "--end" in command(name, "--help").out for name in ("continue", "end")}
    assert listed == {"continue": True, "end": False}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_imports_little(name: str):
    file = Path(str(import_module(COMMANDS[name][0]).__file__))
    tree = ast.parse(file.read_text(encoding="utf-8"))
    modules = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    tops = {module.split(".")[0] for module in modules}
    assert not tops & {"tokenization", "training", "musicgen", "evaluation", "torch", "numpy"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sing"], "invalid choice: 'sing'"),
        (["--loud"], "required: COMMAND; see musicgen --help"),
        (["data", "pop909", "a"], "required: DEST; see musicgen data pop909 --help"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], message: str, refused):
    assert message in refused(*arguments)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (ValueError("x" * 2000), "x" * LONGEST_MESSAGE + " …"),
        (PermissionError(13, "Permission denied", "/there"), "/there: Permission denied"),
        (MemoryError(), "not enough memory for this; try less at a time"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), NO_MEMORY),
        (RecursionError("depth"), "the input is nested too deeply"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(error: Exception, line: str, try_, capsys):
    assert try_(raising(error)) == 2
    assert capsys.readouterr().err == f"musicgen: {line}\n"


@pytest.mark.parametrize("fault", [KeyError("a bug"), RuntimeError("shapes differ")])
def test_a_bug_keeps_its_traceback(fault: Exception, try_):
    with pytest.raises(type(fault)):
        try_(raising(fault))


def test_ctrl_c_is_quiet(try_, capsys):
    assert try_(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")
