"""compiled.explain() and `strata explain --compile`: calls, segments, groups, variants, as text, JSON and a page."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import strata
from html_page import Page
from strata import _C, nn

F = nn.functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 64), nn.GELU())
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        y = self.body(x * 2 + 1)
        if y.sum() > 1e9:
            y = y * 2
        return self.head(y.tanh() * y).softmax(-1)


@pytest.fixture
def small():
    least = _C._set_least_deferred(1)
    yield
    _C._set_least_deferred(least)


def test_what_a_call_does(small):
    net = strata.compile(Net())
    e = net.explain(strata.randn(8, 32))
    texts = [c["text"] for c in e.calls]
    assert texts[0].startswith("%0 = mul(%t0, 2") and "nn.functional.linear(%1" in texts[2]
    assert [c["scope"] for c in e.calls[2:4]] == ["body.0", "body.1"]
    assert all(c["line"].startswith("test_explain_compiled.py:") for c in e.calls)
    first, second = e.segments()
    assert "reads values" in first["reason"] and re.fullmatch(r"test_explain_compiled\.py:\d+", first["line"])
    assert second["reason"] == "the function returns" and (first["begin"], second["end"]) == (0, len(texts))
    assert [g["ops"] for g in e.groups][0] == ["mul", "add"]
    assert e.groups[0]["ended_by"] == "nn.functional.linear" and e.groups[0]["reason"] == "it needs the values"
    assert e.groups[0]["lines"] == [c["line"] for c in e.calls[:2]]
    assert all(g["us"] > 0 and g["share"] > 0 for g in e.groups) and e.memory["peak"] >= e.memory["before"]
    text = e.report()
    assert "2 segments" in text and "GB/s" in text and "calls are not replayed" in text
    assert json.loads(e.json())["segments"] == e.segments()


def test_why_groups_end(small):
    def program(x):
        a = x * 2
        b = x[:3] + 1  # another shape
        c = b.double() * 2  # another type
        for _ in range(70):
            a = a + 1
        return a, b, c

    reasons = [g["reason"] for g in strata.compile(program).explain(strata.ones(4, 5)).groups]
    assert "its result has another shape" in reasons and "a group has at most 64 ops" in reasons
    assert reasons[-1] == "the function ends"


def test_values_are_not_changed_by_looking(small):
    """A result that nobody holds is not stored, and a raising program raises."""
    f = strata.compile(lambda x: ((x * 2).exp() + 1).sum())
    group = f.explain(strata.randn(100)).groups[0]
    assert group["stored"] <= 1
    with pytest.raises(ZeroDivisionError):
        strata.compile(lambda x: x * (1 / 0)).explain(strata.ones(2))
    inside = strata.compile(lambda x: strata.compile(lambda y: y * 2).explain(x).report())
    assert "mul" in inside(strata.ones(3))


def test_variants():
    scale = [1.0]
    f = strata.compile(lambda x: x * scale[0], replay=True)
    x = strata.ones(3)
    for value in (1.0, 1.0, 1.0, 2.0):
        scale[0] = value
        f(x)
    e = f.explain(x)
    assert [g["because"] for g in e.variants.graphs] == ["", "scale[0]"]
    assert " lists" in e.variants.graphs[0]["guards"]
    assert "variant 2 was made because this differed: scale[0]" in e.report() and "Variant 2" in e.html()


def test_a_page_stands_alone_and_is_escaped():
    evil = "<script>alert(1)</script>&\"'"
    net = nn.Sequential()
    net.add_module("x<b>y", nn.Linear(4, 4))
    net._get_name = lambda: evil
    f = strata.compile(net, replay=True)
    x = strata.randn(2, 4)
    for _ in range(3):
        f(x)
    e = f.explain(x)
    e.title = evil
    e.groups.append({**strata.compile(lambda x: x * 2 + 1).explain(strata.randn(200, 200)).groups[0], "source": evil})
    page = Page(e.html())
    assert not page.outside and "script" not in page.tags and "b" not in page.tags[page.tags.index("h2") :]
    assert evil in page.text and "x<b>y" in page.text and "prefers-color-scheme: dark" in e.html()
    empty = strata.compile(lambda: None).explain()
    assert "No ops were computed in groups" in empty.html() and "0 calls of ops" in empty.report()


# --- the command ------------------------------------------------------------------------------------------------------
MODEL = pathlib.Path(__file__)
COMMAND = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", "build/release")) / "bin" / "strata"


def command(*words, **environment):
    return subprocess.run(
        [COMMAND, "explain", *map(str, words)],
        env={**os.environ, "STRATA_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "import strata\nfrom strata import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(32, 4)\n    def forward(self, x):\n        return self.fc(x * 2 + 1).relu()\n"
        "def double(a, b):\n    return a * 2 + b\nnumber = 3\nbroken = lambda x: undefined\n"
    )
    return path


def test_the_command(model, tmp_path):
    done = command("--compile", f"{model}:Net", "--input", "f(8,32)")
    assert done.returncode == 0 and "linear(" in done.stdout and "# fc model.py:8" in done.stdout, done.stderr
    done = command("--compile", f"{model}:double", "--input", "f(300,300)", "--input", "i5(300)", "--json")
    assert json.loads(done.stdout)["groups"][0]["ops"] == ["mul", "add"], done.stderr
    page = tmp_path / "net.html"
    done = command(
        "--compile", f"{model}:Net", "--input", "f(8,32)", "--backward", "--replay", "--html", page, "--device", "vgpu"
    )
    assert done.returncode == 0 and "written" in done.stdout, done.stderr
    assert "mm(" in page.read_text() and "Variant 1" in page.read_text()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--compile", "nothing.py:Net"], 1, "there is no file"),
        (["--compile", "nothing"], 1, "expected a file and a name"),
        (["--compile", "{model}:Other"], 1, "has no 'Other'; it defines strata, nn, Net, double, number, broken"),
        (["--compile", "{model}:number"], 1, "expected a module or a function"),
        (["--compile", "{model}:Net", "--input", "what(3)"], 1, "--input 'what(3)'"),
        (["--compile", "{model}:Net", "--input", "f(-1)"], 1, "--input 'f(-1)'"),
        (["--compile", "{model}:Net", "--input", "f(3,3)"], 1, "raised RuntimeError"),
        (["--compile", "{model}:broken", "--input", "f(3)"], 1, "raised NameError"),
        (["--compile", "{model}:Net", "--input", "f(8,32)", "--device", "tpu"], 1, "tpu"),
        (["--compile", "{model}:Net", "--input", "f(8,32)", "--html", "/nonexistent/x.html"], 2, "cannot write"),
        (
            ["--compile", "{model}:double", "--input", "i5(3)", "--input", "i5(3)", "--backward"],
            1,
            "requires a gradient",
        ),
        ([], 1, "name an op"),
    ],
)
def test_wrong_uses_of_the_command(model, words, status, message):
    done = command(*(w.replace("{model}", str(model)) for w in words))
    assert done.returncode == status and message in done.stderr, done
    assert "Traceback" not in done.stderr


def test_no_python_for_the_command(model):
    done = command("--compile", f"{model}:Net", STRATA_PYTHON="/nonexistent/python")
    assert done.returncode == 2 and "set STRATA_PYTHON" in done.stderr


def test_the_command_finds_the_package_beside_it_or_says_that_there_is_none(model, tmp_path):
    bare = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"STRATA_PYTHON": sys.executable}
    arguments = ["explain", "--compile", f"{model}:Net", "--input", "f(8,32)"]
    found = subprocess.run([COMMAND, *arguments], env=bare, capture_output=True, text=True)
    assert found.returncode == 0 and "Net" in found.stdout, found
    other = tmp_path / "python"  # without installed packages and PYTHONPATH
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -E -S "$@"\n')
    other.chmod(0o755)
    done = command(*arguments[1:], STRATA_PYTHON=str(other))
    assert done.returncode == 2 and "has no package strata; set STRATA_PYTHON" in done.stderr, done
    assert "Traceback" not in done.stderr
