"""The type stubs: they parse, they name everything public, and they agree with the registry."""

import ast
import pathlib
import sys

import pytest
import strata
from strata import _C

ROOT = pathlib.Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import gen_stubs  # noqa: E402

SOURCES = [str(f) for f in (ROOT / "src/ops").glob("**/*.cpp")]
INTERNAL = {r["name"] for r in _C._records() if r["internal"]}
INTERNAL |= {name + "_" for name in INTERNAL}


@pytest.fixture(scope="module")
def trees():
    return {name: ast.parse(text) for name, text in gen_stubs.stubs(SOURCES)}


def names(body):
    """The names that statements define or import."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            yield from gen_stubs.python_names(f"{node.module}.py")
        elif isinstance(node, ast.ImportFrom):
            yield from (a.asname or a.name for a in node.names)


@pytest.mark.parametrize(
    "file, module",
    [
        ("__init__.pyi", strata),
        ("linalg.pyi", strata.linalg),
        ("special.pyi", strata.special),
        ("nn/functional.pyi", strata.nn.functional),
        ("nn/init.pyi", strata.nn.init),
    ],
)
def test_every_public_name_has_a_stub(trees, file, module):
    missing = set(module.__all__) - set(names(trees[file].body)) - INTERNAL - {"multi_head_attention_forward"}
    assert not missing


def test_every_member_of_tensor_has_a_stub(trees):
    (tensor,) = [n for n in trees["_C.pyi"].body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    members = {n for n in dir(strata.Tensor) if not n.startswith("_")}
    assert not members - set(names(tensor.body))


def test_every_name_of_a_stub_exists(trees):
    missing = [
        n
        for n in names(trees["__init__.pyi"].body)
        if not n.startswith("_") and n != "Number" and not hasattr(strata, n)
    ]
    missing += [
        n
        for n in names(trees["nn/functional.pyi"].body)
        if n[0] != "_" and n not in ("Any", "Number", "Generator", "Tensor") and not hasattr(strata.nn.functional, n)
    ]
    assert not missing


def test_forms_are_those_of_the_registry():
    records = {r["schema"]: r for r in _C._records() if "::" not in r["name"]}  # custom ops have a namespace
    ops = [op for source in SOURCES for op in gen_stubs.read_ops(source)]
    assert {op.schema.text for op in ops} == set(records)
    for op in ops:
        record = records[op.schema.text]
        for flag in ("internal", "inplace", "out", "method"):
            assert getattr(op, flag) == record[flag], f"{op.schema.text}: {flag}"
        assert sorted(op.names[1:]) == sorted(record["aliases"])
