"""The scripts of bench/ find in each other what they import: most need PyTorch to run, so that no test starts them."""

import ast
import pathlib

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"


def defined(tree):
    """Names that a module has after its body ran."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((a.asname or a.name).split(".")[0] for a in node.names)
    return names


@pytest.mark.parametrize("script", sorted(BENCH.glob("*.py")), ids=lambda p: p.name)
def test_imports(script):
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (other := BENCH / f"{node.module}.py").exists():
            missing = {a.name for a in node.names} - defined(ast.parse(other.read_text()))
            assert not missing, f"{other.name} has no {', '.join(sorted(missing))}"
