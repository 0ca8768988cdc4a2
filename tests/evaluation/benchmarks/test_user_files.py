"""Reading small files in the formats of the benchmarks."""

from pathlib import Path

import pytest

from evaluation.benchmarks.files import read_corpus
from evaluation.benchmarks.tasks import TASKS, BenchmarkData, Sizes, data_of
from evaluation.benchmarks.training import Examples

OF_USERS = [name for name, task in TASKS.items() if task.maker is None]


def read(task: str, source: Path, **sizes) -> tuple[BenchmarkData, Examples, Examples]:
    found = data_of(task, source, Sizes(**sizes), lambda done, total: None)
    return found, found.train, found.test


def test_texts_and_pairs_are_read(tmp_path: Path) -> None:
    pairs = ['1.0\t7\t8\tone "paper\tother paper', "0.0\t7\t9\tone\ttwo"]
    for split in ("train", "test"):
        for label, text in (("neg", "bad"), ("pos", "very good")):
            (tmp_path / split / label).mkdir(parents=True)
            (tmp_path / split / label / "0_1.txt").write_text(text)
        (tmp_path / f"new_aan_pairs.{split}.tsv").write_text("\n".join(pairs) + "\n")
    found, train, _ = read("text", tmp_path, longest=4)
    assert [bytes(x) for x in train.inputs] == [b"bad", b"very"]
    assert train.labels.tolist() == [0, 1]
    assert (found.classes, found.pairs, found.rules) == (2, False, {"most common class": 0.5})
    found, train, _ = read("retrieval", tmp_path, longest=100)
    assert [bytes(x) for x in train.inputs] == [b'one "paper', b"other paper", b"one", b"two"]
    assert (found.pairs, train.labels.tolist()) == (True, [1, 0])
    found, _, test = read("text", tmp_path, longest=4, test=1)
    assert len(test.labels) == 1
    assert found.remarks == ["Measured on 1 of the 2 test examples."]


@pytest.mark.parametrize("task", OF_USERS)
def test_an_error_names_the_missing_files_and_their_source(task: str, tmp_path) -> None:
    with pytest.raises(ValueError, match=rf"{task} needs data as SOURCE: \w+"):
        data_of(task, None, Sizes(), lambda done, total: None)
    if task not in ("patches", "language", "music"):
        with pytest.raises(FileNotFoundError, match=r"needs the folder .*https://"):
            read(task, tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no "):
        read(task, tmp_path / "gone")


def test_a_folder_of_text_is_read_as_bytes_or_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short")
    with pytest.raises(ValueError, match="with at least 10,000"):
        read_corpus(tmp_path, "bytes")
    (tmp_path / "a.txt").write_text("a few more words\n" * 1000)
    with pytest.raises(ValueError, match=r"500 for the test; more than 512 and 2,048 are needed"):
        read("language", tmp_path, unit="words", length=512)
    sizes = Sizes(unit="words", length=512, past=0)
    assert data_of("language", tmp_path, sizes, lambda done, total: None).vocabulary == 6
    (tmp_path / "a.txt").unlink()
    for number in range(60):
        (tmp_path / f"{number}.txt").write_text(f"a b{number % 7} c\n" * 50)
    (tmp_path / "picture.bin").write_bytes(b"\0" * 100)
    as_bytes, as_words = (read_corpus(tmp_path, unit) for unit in ("bytes", "words"))
    assert as_bytes.vocabulary == 256
    assert as_words.vocabulary == 1 + 2 + 7 + 1  # unknown, a and c, seven others, the end of a line
    assert as_bytes.about.startswith("a folder of 60 files, of which a tenth")
    # Files of 200 words, each but the last followed by an empty line.
    assert (len(as_words.train) + 1, len(as_words.test) + 1) == (55 * 201, 5 * 201)
    assert read_corpus(tmp_path, "words", most_words=3).vocabulary == 4
    for name, text in (("train", "x <unk> y\n" * 2000), ("valid", "v\n"), ("test", "y z\n")):
        (tmp_path / f"wiki.{name}.tokens").write_text(text)
    found = read_corpus(tmp_path, "words")
    assert found.about == "WikiText-103 in its own split"
    assert (found.vocabulary, len(found.train), found.test[1]) == (4, 8000, 0)  # z is unknown
