"""The calls that bench/every_op.py derives from the records."""

import pathlib
import sys

import pytest
import strata

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]

import op_cases  # noqa: E402


@pytest.mark.parametrize(
    "text, n, expected",
    [
        ("f(3,4), f(4)", 12, "f(3,4), f(4)"),
        ("f(3,4), f(4)", 1200, "f(30,40), f(40)"),
        ("f(4,3), 0, i4(2,3)", 1200, "f(40,30), 0, i40(2,30)"),
        ("~f(10), p(10)", 1000, "f(1000), p(1000)"),
        ("f(2,4,5,5), f(6,4,3,3)", 200 * 16, "f(4,8,10,10), f(6,8,3,3)"),
    ],
)
def test_sizes_grow_together(text, n, expected):
    assert op_cases.Case("op", text, n, "contiguous").text == expected


@pytest.mark.parametrize("name", [name for name in op_cases.FORMS if name.startswith("conv")])
def test_windows_of_convolutions_do_not_grow(name):
    sizes = {}
    for n in (10000, 1000000):
        args, _ = op_cases.Case(name, "", n, "contiguous").arguments(lambda letter, shape: shape)
        assert n / 4 < op_cases.elements(args[0]) < 4 * n
        sizes[n] = args[1][2:]
    assert sizes[10000] == sizes[1000000]


def test_arguments_are_what_the_sample_says():
    case = op_cases.Case("op", "f(2,3), [1, -1], dim=0, value=2.5, mode='sum', keep=True, other=None", 6, "contiguous")
    args, kwargs = case.arguments(lambda letter, shape: (letter, shape))
    assert args == [("f", (2, 3)), [1, -1]]
    assert kwargs == dict(dim=0, value=2.5, mode="sum", keep=True, other=None)


def test_most_public_ops_have_a_case_that_runs():
    ran, failed = 0, []
    for (name, overload), sample in op_cases.samples().items():
        case = op_cases.Case(name, sample, 64, "contiguous")

        def make(letter, shape):
            if letter == "b":
                return strata.rand(shape) > 0.5
            if letter[0] == "i":
                return strata.randint(0, int(letter[1:]), shape)
            return strata.rand(shape) * 0.9 + 0.05

        try:
            args, kwargs = case.arguments(make)
            function = strata._C.ops.get(name) or getattr(strata.Tensor, name)
            function(*args, **kwargs)
            ran += 1
        except Exception as error:  # sizes as numbers do not grow
            failed.append((name, overload, case.text, error))
    assert ran >= 400, failed
