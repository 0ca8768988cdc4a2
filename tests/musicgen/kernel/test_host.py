"""The kernel's memory, and what is said if the kernel cannot run."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import wasmtime

from musicgen.kernel import host
from musicgen.kernel.host import Kernel, KernelError


def test_spans_keep_their_content_while_the_memory_grows_and_are_used_again():
    kernel = Kernel()
    random = np.random.default_rng(0)
    kept = [(kernel.place(data := random.integers(0, 255, size, np.uint8)), data)
            for size in random.integers(1, 400_000, 60)]  # fmt: skip
    assert len({span.address for span, _ in kept}) == 60
    for span, data in kept:
        assert span.address % host.ALIGNED == 0
        np.testing.assert_array_equal(span.read(np.uint8, len(data)), data)
        np.testing.assert_array_equal(span.copy().read(np.uint8, len(data)), data)
    size = kernel.machine.size
    for _ in range(200):
        kernel.take(300_000)
    assert kernel.machine.size == size + host.GROWTH or kernel.machine.size == size


def test_memory_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch):
    kernel = Kernel()
    with pytest.raises(KernelError, match=r"no memory for another .* ask for fewer variations"):
        kernel.take(1 << 33)
    kernel.take(1 << 20)  # goes on


def test_functions_are_exact_to_the_last_digits():
    kernel = Kernel()
    x = np.concatenate([np.linspace(-745, 709, 4001), [0.0, 1e-300, -1e-17]])
    np.testing.assert_allclose(kernel.exponentials(x), np.exp(x), rtol=4e-16, atol=5e-324)
    assert kernel.exponentials(np.array([-np.inf, 800.0])).tolist() == [0.0, np.inf]
    y = np.geomspace(1e-300, 1e300, 4001)
    np.testing.assert_allclose(kernel.logarithms(y), np.log(y), rtol=4e-16, atol=4e-16)


def test_normal_numbers_are_normal_and_the_same_in_any_window():
    kernel, span = Kernel(), Kernel().take(16)
    span = kernel.take(400_000)
    kernel.call("normals", -5, 0, span.address, 100_000, 2.0)
    drawn = span.read(np.float32, 100_000)
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.std() - 2) < 0.02
    assert abs((np.abs(drawn) < 2).mean() - 0.6827) < 0.005
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.01
    kernel.call("normals", -5, 5000, span.address, 999, 2.0)
    np.testing.assert_array_equal(span.read(np.float32, 999), drawn[5000:5999])


@pytest.fixture
def other_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that replaces the kernel's file by other bytes."""
    (folder := tmp_path / "kernel").mkdir()
    monkeypatch.setattr(host, "files", lambda _: folder)
    host._module.cache_clear()
    yield lambda data: (folder / "kernel.wasm").write_bytes(data)
    host._module.cache_clear()


def test_a_damaged_kernel_is_said(other_kernel):
    whole = (files("musicgen.kernel") / "kernel.wasm").read_bytes()
    for data in (b"", b"MThd", whole[:9000], whole[:500] + b"\xff" * 40 + whole[540:]):
        other_kernel(data)
        with pytest.raises(KernelError, match=r"kernel.wasm is damaged .*: install musicgen again"):
            Kernel()


def test_another_kernel_is_said(other_kernel):
    other_kernel(wasmtime.wat2wasm('(module (memory (export "memory") 1))'))
    with pytest.raises(
        KernelError, match=r"not the kernel of this version .*install musicgen again"
    ):
        Kernel()


def test_a_machine_without_wasmtime_is_said():
    script = (
        "import sys; sys.modules['wasmtime'] = None\n"
        "from app.cli import main\n"
        "sys.exit(main(['generate', '--bars', '1']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("musicgen: models are played by wasmtime, which cannot be used")
    assert done.stderr.count("\n") == 1
