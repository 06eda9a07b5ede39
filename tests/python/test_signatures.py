"""inspect.signature() works for everything public."""

import importlib
import inspect
import types

import pytest
import strata
import strata.nn.functional as F
from strata import _C

MODULES = """
strata strata.amp strata.autograd strata.cuda strata.distributions strata.fft strata.func strata.linalg strata.nn
strata.nn.functional strata.nn.init strata.nn.utils strata.optim strata.optim.lr_scheduler strata.random strata.special
strata.utils.data strata.vision.ops strata.vision.transforms
""".split()


def is_exception(value):
    """Those of Python 3.11 have no signature either."""
    return isinstance(value, type) and issubclass(value, BaseException)


def public_callables(name):
    module = importlib.import_module(name)
    for attribute in dir(module):
        value = getattr(module, attribute)
        if attribute.startswith("_") or is_exception(value) or isinstance(value, types.ModuleType):
            continue
        if callable(value):
            yield f"{name}.{attribute}", value
        if isinstance(value, type) and value.__module__.split(".")[0] == "strata":
            for member in dir(value):
                if not member.startswith("_") and callable(found := getattr(value, member, None)):
                    yield f"{name}.{attribute}.{member}", found


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_a_signature(name):
    failed, count = [], 0
    for full, value in public_callables(name):
        count += 1
        try:
            inspect.signature(value)
        except Exception as e:
            failed.append(f"{full}: {e!r}")
    assert count > 0 and not failed


def text(function):
    return str(inspect.signature(function))


def test_an_op_shows_its_parameters():
    assert text(strata.softmax) == "(input, dim=None, dtype=None, *, out=None)"
    assert text(strata.linalg.qr) == "(A, mode='reduced', *, out=None)"
    assert text(F.relu) == "(input, *, inplace=False, out=None)"
    assert text(strata.addmm) == "(input, mat1, mat2, *, beta=1, alpha=1, out=None)"
    assert text(strata.bartlett_window).startswith("(window_length, periodic=True, *, dtype=None")


def test_a_method_is_without_its_tensor():
    x = strata.ones(2)
    assert text(x.softmax) == "(dim=None, dtype=None, *, out=None)"
    assert text(strata.Tensor.softmax) == text(strata.softmax)
    assert text(x.exp_) == "()"
    assert text(x.size) == "(dim=None)" and text(x.backward).startswith("(gradient=None, retain_graph=None")


def test_a_list_may_be_given_item_by_item():
    assert text(strata.zeros).startswith("(*size, ") and text(strata.ones(2).view).startswith("(*")
    inspect.signature(strata.zeros).bind(2, 3, dtype=strata.float64)


def test_overloads_share_the_first_parameters():
    assert text(strata.max) == "(input, *args, **kwargs)"


@pytest.mark.parametrize("name", sorted(n for n, op in _C.ops.items() if len(op.schemas) == 1 and not op.internal))
def test_defaults_are_values(name):
    """Each default of a schema is a Python value, not text."""
    for p in inspect.signature(_C.ops[name]).parameters.values():
        if p.default is not p.empty:
            assert p.default is None or isinstance(p.default, (bool, int, float, str, list, strata.dtype)), p


def test_builtins_and_types():
    assert text(strata.tensor) == "(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)"
    assert text(strata.manual_seed) == "(seed)"
    assert text(strata.device) == "(type, index=None)"
    assert text(strata.nn.Linear).startswith("(in_features, out_features, bias=True")
    assert strata.tensor.__doc__.startswith("A copy of nested lists")


def test_as_tensor_takes_dtype_and_device_by_position():
    assert strata.as_tensor([1, 2], strata.float64, "cpu").dtype == strata.float64
    inspect.signature(strata.as_tensor).bind([1], strata.float64, "cpu")
