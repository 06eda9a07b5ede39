"""ONNX's own test suite: all its cases run, and the list of those that fail is exact."""

import json

import backend_suite
import pytest


@pytest.fixture(scope="module")
def suite():
    found = backend_suite.cases()
    assert len(found) == backend_suite.CASES, (
        "the installed `onnx` has another number of cases; tools/setup installs 1.23.2"
    )
    return found


@pytest.mark.parametrize("device, floor", [("cpu", 0.9), ("vgpu", 0.9)])
def test_suite_fails_only_where_known(suite, device, floor):
    known = json.loads(backend_suite.KNOWN.read_text())[device]
    found, count = backend_suite.failures(device, all_cases=suite)
    assert count == backend_suite.CASES
    assert len(found) <= (1 - floor) * count
    assert {name: why for name, why in found.items() if name not in known} == {}, "cases fail that passed before"
    assert sorted(known) == sorted(found), "cases pass now: run tests/onnx/backend_suite.py --write"
    assert all(known.values()), "each failure has a reason"
