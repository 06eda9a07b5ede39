"""Strata rejects what PyTorch rejects: the error inputs of PyTorch's own tests, replayed from data without PyTorch."""

import error_cases
import pytest
import strata

CASES = error_cases.load()
BY_OP = {}
for case in CASES:
    BY_OP.setdefault(case["op"], []).append(case)


@pytest.mark.parametrize("op", BY_OP)
def test_refused_as_by_pytorch(op):
    outcomes = {error_cases.label(case): error_cases.outcome(strata, case) for case in BY_OP[op]}
    assert {k: v for k, v in outcomes.items() if v != "refused"} == {}
