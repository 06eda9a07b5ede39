"""The samples of module records as Python calls, shared by the tests of modules."""

import ast
import inspect
import pathlib
import re
import sys

import strata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import module_records  # noqa: E402
import signatures  # noqa: E402

RECORDS = [r for file in sorted((ROOT / "src/nn/modules").glob("*.modules")) for r in module_records.read(file)]
SAMPLES = [(r, number) for r in RECORDS for number in range(len(r.samples))]
LABELS = [f"{r.name} {number}" for r, number in SAMPLES]


def made(record, number):
    """The module of a sample, built with the text's arguments."""
    return eval(f"nn.{record.name}({record.samples[number][0]})", {"nn": strata.nn})


def arguments(record, number):
    """All constructor arguments of a sample by name, defaults included."""
    call = ast.parse(f"f({record.samples[number][0]})", mode="eval").body
    cls = getattr(strata.nn, record.name)
    given = inspect.signature(cls).bind(
        *map(ast.literal_eval, call.args), **{k.arg: ast.literal_eval(k.value) for k in call.keywords}
    )
    given.apply_defaults()
    return given.arguments


def draw(text):
    """One input of the sample language."""
    if text.startswith("t["):
        return strata.tensor(ast.literal_eval(text[1:]))
    letter, limit, sizes = re.fullmatch(r"([fpzi])(\d*)\(([\d,]*)\)", text).groups()
    shape = tuple(map(int, sizes.split(",")))
    if letter == "i":
        return strata.randint(int(limit), shape)
    drawn = strata.randn(shape) if letter == "f" else strata.rand(shape)
    return {"f": lambda: drawn, "p": lambda: drawn * 2.9 + 0.1, "z": lambda: drawn * 0.9 + 0.05}[letter]()


def inputs(record, number):
    """The inputs of a sample, drawn in order from the default generator."""
    return [draw(text) for text in signatures.split(record.samples[number][1])]
