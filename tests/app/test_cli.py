import ast
import os
import signal
import subprocess
import sys
import time
import types
from importlib import import_module
from pathlib import Path

import pytest

import app.cli
from app.cli import COMMANDS, main, sentence
from tests.training.data.sources import on_disk as disk

PROGRAM = [sys.executable, "-m", "app.cli"]


def program(*arguments: str, **settings) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, timeout=120, **settings
    )


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    """Make a command `try` of a function."""

    def make(run):
        module = types.ModuleType("app.commands.try")
        module.add = lambda parser: parser.add_argument("--number", type=int)
        module.run = run
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(COMMANDS, "try", (module.__name__, "try something"))

    return make


def test_help_lists_all_commands_and_imports_none():
    """What is imported takes the time: the program's own table, and modules that come with Python."""
    code = (
        "import sys\n"
        "before = {*sys.modules}\n"
        "import app.cli\n"
        "app.cli.main(['--help'])\n"
        "own = {name for name in {*sys.modules} - before if name.split('.')[0] not in sys.stdlib_module_names}\n"
        "slow = {'asyncio', 'email', 'http', 'multiprocessing', 'unittest', 'urllib'} & {*sys.modules} - before\n"
        "sys.exit(' '.join(sorted(own - {'app', 'app.cli', 'app.output'} | slow)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())  # on a narrow terminal, lines are broken
    for name, (_, does) in COMMANDS.items():
        assert f" {name} {does}" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"usage: musicgen {name} " in shown
    assert f"  musicgen {name} " in shown.partition("example")[2]


@pytest.mark.parametrize("module", sorted({module for module, _ in COMMANDS.values()}))
def test_a_command_is_a_module_with_add_and_run_that_imports_little(module: str):
    imported = import_module(module)
    assert callable(imported.add)
    assert callable(imported.run)
    tree = ast.parse(Path(str(imported.__file__)).read_text(encoding="utf-8"))
    tops = {
        (node.module or "").split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom)
    }
    assert not tops & {"tokenization", "training", "musicgen", "evaluation", "torch", "numpy"}


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    assert "usage: musicgen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sing"], "invalid choice: 'sing'"),
        (["--loud"], "required: COMMAND; see musicgen --help"),
        (["tokenize"], "required: FILE; see musicgen tokenize --help"),
        (["tokenize", "a.mid", "--language", "abc"], "invalid choice: 'abc'"),
        (["tokenize", "a.mid", "--lodu"], "unrecognized arguments: --lodu"),
        (["data", "pop909", "a"], "required: DEST; see musicgen data pop909 --help"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("musicgen: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (OSError("a sentence of ours"), "a sentence of ours"),
        (PermissionError(13, "Permission denied", "/there"), "/there: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (MemoryError(), "there is not enough memory for this; try with less at a time"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    command, error: Exception, line: str, capsys: pytest.CaptureFixture[str]
):
    def run(arguments) -> None:
        raise error

    command(run)
    assert main(["try"]) == 2
    assert capsys.readouterr().err == f"musicgen: {line}\n"
    assert sentence(error) == line


def test_a_fault_of_the_program_is_not_hidden(command):
    def run(arguments) -> None:
        raise KeyError("a bug")

    command(run)
    with pytest.raises(KeyError):
        main(["try"])


def test_ctrl_c_is_quiet(command, capsys: pytest.CaptureFixture[str]):
    def run(arguments) -> None:
        raise KeyboardInterrupt

    command(run)
    assert main(["try"]) == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_in_a_terminal_ends_workers_too_without_a_word(tmp_path: Path):
    source = tmp_path / "source"
    disk.midi_folder(source, 1)
    for number in range(3000):
        os.link(source / "song0.mid", source / f"copy{number}.mid")
    command = [*PROGRAM, "data", "midi", str(source), str(tmp_path / "set"), "--workers", "2"]
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    while not (tmp_path / ".set.part").exists():
        assert run.poll() is None
        time.sleep(0.01)
    time.sleep(0.1)  # the workers are starting
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
    out, err = run.communicate(timeout=120)
    assert (out, err) == (b"", b"")
    assert run.returncode == 130
    assert os.listdir(tmp_path) == ["source"]


def test_a_reader_that_leaves_is_no_error(tmp_path: Path):
    line = f"{' '.join(PROGRAM)} --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    many = f"{' '.join(PROGRAM)} detokenize --help | head -1"
    done = subprocess.run(["bash", "-c", many], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.startswith("usage")


def test_a_full_pipe_that_is_closed_is_quiet():
    code = (
        "import sys, types, app.cli\n"
        "module = types.ModuleType('app.commands.much')\n"
        "module.add = lambda parser: None\n"
        "module.run = lambda arguments: print('x' * 10**7)\n"
        "sys.modules[module.__name__] = module\n"
        "app.cli.COMMANDS['much'] = (module.__name__, 'print much')\n"
        "sys.exit(app.cli.main(['much']))"
    )
    line = f'{sys.executable} -c "$CODE" | head -c 1; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "CODE": code},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("x141\n", "")


def test_a_name_that_is_no_text_can_be_told(capfd: pytest.CaptureFixture[str]):
    done = program("tokenize", os.fsdecode(b"/nowhere/\xff.mid"))
    assert done.returncode == 2
    assert done.stderr.startswith("musicgen: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["tokenize -", "detokenize - -o nowhere/a.mid", "models"])
def test_streams_that_are_closed_are_empty(words: str, closed: str):
    line = f"{' '.join(PROGRAM)} {words} {closed}"
    done = subprocess.run(
        ["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == (0 if words == "models" else 2)
    assert "Traceback" not in done.stdout + done.stderr
    if "2>" in closed:
        assert "musicgen:" not in done.stdout  # messages do not wander among the results


def test_developers_see_where_an_error_arose():
    done = subprocess.run(
        [sys.executable, "-X", "dev", *PROGRAM[1:], "tokenize", "/nowhere.mid"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" in done.stderr
    assert app.cli.main(["tokenize", "/nowhere.mid"]) == 2
