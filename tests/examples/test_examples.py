"""The programs in examples/ run and learn, on small data."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build" / "release"))
TEXT = "to be or not to be, that is the question. " * 200


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    sys.path.insert(0, str(ROOT / "tests/cli"))
    from small_mnist import write_small_mnist

    return write_small_mnist(tmp_path_factory.mktemp("mnist"))


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def command(language, name):
    return [sys.executable, ROOT / "examples/python" / f"{name}.py"] if language == "python" else [BUILD / "bin" / name]


def run(language, name, *arguments, cwd):
    done = subprocess.run(
        [*map(str, command(language, name)), *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_train_mnist(language, digits, tmp_path):
    printed = run(language, "train_mnist", digits, 5, cwd=tmp_path)
    accuracy = [float(a) for a in re.findall(r"test accuracy ([\d.]+)%", printed)]
    assert len(accuracy) == 5 and accuracy[-1] > 80, printed
    assert (tmp_path / "mnist.safetensors").stat().st_size > 421642 * 4


def test_both_languages_train_the_same_network(digits, tmp_path):
    import strata

    saved = []
    for language in ("python", "cpp"):
        for options in ([], ["--compile"]):
            folder = tmp_path / f"{language}{len(options)}"
            folder.mkdir()
            run(language, "train_mnist", digits, 1, *options, cwd=folder)
            saved.append(strata.load(folder / "mnist.safetensors"))
    for other in saved[1:]:
        assert saved[0].keys() == other.keys()
        for key in saved[0]:
            assert strata.equal(saved[0][key], other[key]), key


@pytest.mark.parametrize(
    "options", [[], ["--chunked-loss"], ["--compile", "--chunked-loss"]], ids=["", "chunked", "compiled"]
)
@pytest.mark.parametrize("language", ["python", "cpp"])
def test_char_gpt(language, options, text, tmp_path):
    printed = run(language, "char_gpt", text, 200, *options, cwd=tmp_path)
    losses = [float(v) for v in re.findall(r"loss ([\d.]+)", printed)]
    assert losses[-1] < 0.5, printed
    assert "question" in printed.split("\n", 2)[2]


def test_compiled_steps_print_the_same(text, tmp_path):
    plain, compiled = (run("python", "char_gpt", text, 30, *o, cwd=tmp_path) for o in ([], ["--compile"]))
    assert plain == compiled


@pytest.mark.parametrize("name", ["python/train_mnist.py", "cpp/train_mnist.cpp"])
def test_the_first_example_stays_short(name):
    assert len((ROOT / "examples" / name).read_text().splitlines()) <= 60
