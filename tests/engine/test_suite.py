"""ONNX's test suite: an engine gives what the ops called one by one give, also for other values than those it has seen first."""

import backend_suite
import numpy as np
import pytest
import strata
from strata import engine
from strata.onnx import _values

# They draw random numbers: an engine draws as many, but the graph is made by one more run.
RANDOM = ("bernoulli", "dropout", "random")
GRAPHS = {"cpu": 1300, "vgpu": 1300}  # at least so many cases run as a graph


def reversed_values(value):
    """Other values of the same type and shape."""
    if isinstance(value, list):
        return [reversed_values(v) for v in value]
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    if value.dtype.kind == "b":
        return ~value
    return np.ascontiguousarray(value[::-1])


def outcome(run, feed):
    """The values, or the kind of the error."""
    strata.manual_seed(0)
    try:
        return [_values.to_numpy(v) for v in run(feed)]
    except Exception as e:
        return type(e)


def assert_same(got, want, where):
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), where
        for g, w in zip(got, want, strict=True):
            assert_same(g, w, where)
    elif isinstance(want, np.ndarray) and want.dtype != object:
        assert got.dtype == want.dtype and got.shape == want.shape, where
        rtol = 1e-2 if want.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-6, err_msg=where)
    elif isinstance(want, np.ndarray):
        assert got.tolist() == want.tolist(), where
    else:
        assert got == want, where


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_engines_give_what_the_interpreter_gives(device):
    graphs, compared = 0, 0
    for case in backend_suite.cases():
        source = case.model if case.folder is None else str(case.folder / "model.onnx")
        try:
            model = strata.onnx.load(source, device)
        except NotImplementedError:
            continue
        context = engine.build(source, device=device, level=0).create_context()
        sets = case.data if case.folder is None else backend_suite._stored_sets(case.folder, model)
        values = {v.name: backend_suite._listed(x) for v, x in zip(model.inputs, next(iter(sets))[0], strict=False)}
        for feed in (values, {name: reversed_values(v) for name, v in values.items()}, values):
            feed = {name: _values.to_value(v, model.device) for name, v in feed.items()}
            want, got = outcome(model.run, feed), outcome(context.run, feed)
            if isinstance(want, type) or isinstance(got, type):
                assert want is got, f"{case.name}: {want} and {got}"
            elif not any(word in case.name for word in RANDOM):
                assert_same(got, want, case.name)
        compared += 1
        graphs += context.last_mode in ("graph", "cuda graph")
    assert compared > 1990 and graphs >= GRAPHS[device]
