"""Masked functions against NumPy's masked arrays, and tensors with masks."""

import pickle

import numpy as np
import pytest
import strata
from strata import masked
from strata.masked import as_masked_tensor, masked_tensor

DATA = np.random.RandomState(0).randn(4, 5).astype(np.float32)
MASK = np.random.RandomState(1).rand(4, 5) > 0.4
MASK[2] = False  # a row without elements
x, mask = strata.tensor(DATA), strata.tensor(MASK)
array = np.ma.masked_array(DATA, ~MASK)


def close(got, want):
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", [0, 1, -1, None, (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    "name, empty", [("sum", 0), ("prod", 1), ("amax", -np.inf), ("amin", np.inf), ("mean", np.nan)]
)
def test_reductions(name, empty, dim, keepdim):
    numpy_name = {"amax": "max", "amin": "min"}.get(name, name)
    want = getattr(array, numpy_name)(axis=dim, keepdims=keepdim)
    got = getattr(masked, name)(x, dim, keepdim=keepdim, mask=mask)
    close(got, np.ma.filled(np.ma.masked_array(want), empty))
    tensor = getattr(masked_tensor(x, mask), name)(dim=dim, keepdim=keepdim)
    assert np.array_equal(tensor.get_mask().numpy(), ~np.ma.getmaskarray(np.ma.masked_array(want)))


@pytest.mark.parametrize("correction", [0, 1])
def test_moments(correction):
    got = masked.var(x, 0, correction=correction, mask=mask)
    want = np.array(
        [np.var(c[m], ddof=correction) if m.sum() > correction else np.nan for c, m in zip(DATA.T, MASK.T, strict=True)]
    )
    close(got, want)
    close(masked.std(x, 0, bool(correction), mask=mask), np.sqrt(want))
    columns = zip(DATA.T, MASK.T, strict=True)
    middle = [np.sort(c[m])[(m.sum() - 1) // 2] if m.any() else np.nan for c, m in columns]
    close(masked.median(x, 0, mask=mask), middle)


def test_functions_along_a_dim():
    weights = np.where(MASK, np.exp(DATA), 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        soft = weights / weights.sum(1, keepdims=True)
        logs = np.log(soft)
    close(masked.softmax(x, 1, mask=mask), soft)
    close(masked.log_softmax(x, 1, mask=mask), logs)
    with np.errstate(divide="ignore"):
        close(masked.logsumexp(x, 1, mask=mask), np.log(weights.sum(1)))
    close(masked.cumsum(x, 1, mask=mask), np.where(MASK, DATA, 0).cumsum(1))
    close(masked.cumprod(x, 1, mask=mask), np.where(MASK, DATA, 1).cumprod(1))
    length = np.sqrt(np.where(MASK, DATA**2, 0).sum(1, keepdims=True))
    close(masked.norm(x, 2.0, 1, mask=mask), length[:, 0])
    close(masked.normalize(x, 2.0, 1, mask=mask), np.where(MASK, DATA, 0) / np.maximum(length, 1e-12))
    assert masked.argmax(x, 1, mask=mask).tolist() == np.where(MASK, DATA, -np.inf).argmax(1).tolist()
    assert masked.argmin(x, 1, mask=mask).tolist() == np.where(MASK, DATA, np.inf).argmin(1).tolist()
    close(masked.logaddexp(x, x, input_mask=mask), np.where(MASK, DATA + np.log(2), DATA))


def test_defaults_dtypes_and_broadcasting():
    close(masked.sum(x), DATA.sum())
    close(masked.sum(x, 1, mask=mask[:, :1]), np.where(MASK[:, :1], DATA, 0).sum(1))
    assert (
        masked.sum(
            strata.ones(3, dtype=strata.int32), mask=strata.tensor([True, False, True]), dtype=strata.float64
        ).item()
        == 2.0
    )
    assert masked.amax(strata.tensor([1, 9, 3]), mask=strata.tensor([True, False, True])).item() == 3
    assert masked.sum(strata.ones(0, 3), 0).tolist() == [0.0] * 3


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "softmax", "logsumexp", "var"])
def test_gradients(name):
    rows = [0, 1, 3]
    a = strata.tensor(DATA[rows], dtype=strata.float64).requires_grad_()
    m = strata.tensor(MASK[rows])
    m[:, :2] = True

    def f(v):
        return getattr(masked, name)(v, 1, mask=m)

    assert strata.autograd.gradcheck(f, (a,))
    (g,) = strata.autograd.grad(f(a).pow(2).sum(), a)
    assert bool((g[~m] == 0).all())


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_tensors_with_masks(device):
    t = masked_tensor(x.to(device), mask.to(device), requires_grad=True)
    out = (t * 2 + 1).exp().transpose(0, 1).reshape(5, 4)
    want = np.exp(DATA * 2 + 1).T
    np.testing.assert_allclose(out.to_tensor(0).detach().cpu().numpy(), np.where(MASK.T, want, 0), rtol=1e-4)
    (t * 3).sum().backward()
    assert masked.is_masked_tensor(t.grad)
    np.testing.assert_allclose(t.grad.to_tensor(0).cpu().numpy(), np.where(MASK, 3.0, 0.0))
    assert t.softmax(1).get_mask().tolist() == MASK.tolist() and t[0].shape == (5,) and t.T.shape == (5, 4)
    assert t.device.type == device and t.dtype is strata.float32 and len(t) == 4
    assert [p.shape for p in t.split(2)] == [(2, 5)] * 2


def test_printing_and_pickling():
    t = masked_tensor(strata.tensor([[1.0, 2.0], [3.0, 4.0]]), strata.tensor([[True, False], [False, True]]))
    assert repr(t) == "MaskedTensor(\n  [\n    [  1.0000,       --],\n    [      --,   4.0000]\n  ]\n)"
    assert t.tolist() == [[1.0, None], [None, 4.0]] and repr(t.sum()) == "MaskedTensor(  5.0000, True)"
    assert pickle.loads(pickle.dumps(t)).tolist() == t.tolist()


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda t: strata.fft.fft(t), NotImplementedError, "fft is not available"),
        (lambda t: t + masked_tensor(x, ~mask), ValueError, "masks"),
        (lambda t: t + x, TypeError, "as_masked_tensor"),
        (lambda t: t.numpy(), TypeError, "to_tensor"),
        (lambda t: bool(t), RuntimeError, "truth"),
        (lambda t: masked_tensor(x, mask[:2]), ValueError, "shape"),
        (lambda t: masked_tensor(x, x), TypeError, "bools"),
        (lambda t: masked_tensor(t, mask), TypeError, "plain"),
        (lambda t: as_masked_tensor([1.0], mask), TypeError, "plain"),
        (lambda t: masked.sum(x, mask=strata.ones(3, dtype=strata.bool)), ValueError, "broadcast"),
        (lambda t: masked.sum(x, mask=x), TypeError, "bools"),
        (lambda t: masked.mean(strata.arange(3)), TypeError, "floating"),
        (lambda t: masked.var(x, unbiased=True, correction=1), RuntimeError, "not both"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(masked_tensor(x, mask))
