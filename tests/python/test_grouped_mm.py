"""Grouped products: small integers exactly against NumPy group by group, all layouts and kinds, gradients, offsets out of order."""

import itertools
import os

import numpy as np
import pytest
import strata

F = strata.nn.functional
GPU = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
HALVES = [strata.bfloat16, strata.float16]
DTYPES = [*HALVES, strata.float32, strata.float64]
DEVICES = ["cpu", GPU]
KINDS = ["rows", "columns", "depth"]


def wide(t):
    return t.detach().cpu().to(strata.float64).numpy()


def rounded(values, dtype):
    return strata.tensor(values).to(dtype).to(strata.float64).numpy()


def integers(rng, *shape, dtype, device):
    return strata.tensor(rng.integers(-3, 4, shape).astype(np.float64)).to(dtype).to(device)


def offsets(rng, groups, size, full=True):
    """Ends of groups, some of them empty."""
    ends = np.sort(rng.integers(0, size + 1, groups))
    if full and groups:
        ends[-1] = size
    return strata.tensor(ends.astype(np.int32))


def operands(rng, kind, groups, t, other, k, dtype, device):
    shapes = {
        "rows": ((t, k), (groups, k, other)),
        "columns": ((groups, other, k), (k, t)),
        "depth": ((other, t), (t, k)),
    }[kind]
    return tuple(integers(rng, *s, dtype=dtype, device=device) for s in shapes)


def expected(kind, a, b, ends):
    ends = np.asarray(ends)
    starts = np.concatenate([[0], ends[:-1]]).astype(int)
    if kind == "depth":
        return np.stack([a[:, s:e] @ b[s:e] for s, e in zip(starts, ends, strict=True)])
    out = np.zeros((a.shape[-2], b.shape[-1]))
    for g, (s, e) in enumerate(zip(starts, ends, strict=True)):
        if kind == "rows":
            out[s:e] = a[s:e] @ b[g]
        else:
            out[:, s:e] = a[g] @ b[:, s:e]
    return out


def ordered(t, transposed):
    return t.transpose(-2, -1).contiguous().transpose(-2, -1) if transposed else t


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_all_orders_and_sizes(kind, dtype, device):
    rng = np.random.default_rng(1)
    sizes = [(1, 1, 1, 1), (3, 40, 24, 16), (4, 160, 136, 40), (2, 17, 9, 33), (5, 64, 8, 72)]
    sizes += [tuple(int(v) for v in rng.integers(1, 60, 4)) for _ in range(3)]
    for groups, t, other, k in sizes:
        a, b = operands(rng, kind, groups, t, other, k, dtype, device)
        offs = offsets(rng, groups, t, full=bool(rng.integers(0, 2)))
        want = rounded(expected(kind, wide(a), wide(b), offs.numpy()), dtype)
        for left, right in itertools.product([False, True], repeat=2):
            y = strata._grouped_mm(ordered(a, left), ordered(b, right), offs.to(device))
            assert y.dtype == dtype and y.device.type == device
            np.testing.assert_array_equal(wide(y), want)


@pytest.mark.parametrize("kind", KINDS)
def test_addresses_off_the_vectors(kind):
    rng = np.random.default_rng(2)
    for offset in (1, 4, 8):
        a, b = operands(rng, kind, 3, 48, 40, 32, strata.bfloat16, GPU)

        def moved(t, offset=offset):
            wider = strata.zeros(*t.shape[:-1], t.shape[-1] + 16, dtype=t.dtype, device=GPU)
            wider[..., offset : offset + t.shape[-1]] = t
            return wider[..., offset : offset + t.shape[-1]]

        offs = offsets(rng, 3, 48)
        want = rounded(expected(kind, wide(a), wide(b), offs.numpy()), strata.bfloat16)
        np.testing.assert_array_equal(wide(strata._grouped_mm(moved(a), moved(b), offs.to(GPU))), want)


@pytest.mark.parametrize("device", DEVICES)
def test_many_groups_and_empty_ones(device):
    rng = np.random.default_rng(3)
    for kind in KINDS:
        a, b = operands(rng, kind, 70, 90, 16, 8, strata.float16, device)
        offs = offsets(rng, 70, 90)
        want = rounded(expected(kind, wide(a), wide(b), offs.numpy()), strata.float16)
        np.testing.assert_array_equal(wide(strata._grouped_mm(a, b, offs.to(device))), want)
        none = strata.zeros(70, dtype=strata.int32, device=device)
        assert not wide(strata._grouped_mm(a, b, none)).any()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("kind", ["rows", "depth"])
def test_several_tiles_of_a_group(kind, dtype):
    """Aligned rows, in the orders of a forward pass and of the gradient of the matrices, that tensor cores read directly."""
    rng = np.random.default_rng(7)
    for groups, t, other, k in ((1, 300, 264, 136), (3, 700, 264, 72), (9, 520, 136, 200), (40, 333, 72, 64)):
        a, b = operands(rng, kind, groups, t, other, k, dtype, GPU)
        offs = offsets(rng, groups, t, full=groups != 3)
        want = rounded(expected(kind, wide(a), wide(b), offs.numpy()), dtype)
        for transposed in (False, True) if kind == "rows" else (False,):
            given = ordered(a, kind == "depth"), ordered(b, transposed), offs.to(GPU)
            np.testing.assert_array_equal(wide(strata._grouped_mm(*given)), want)
            entries = [line[1] for line in strata.explain(strata._grouped_mm, *given)]
            assert entries[0] == "hopper"  # and, where there is no Hopper, one that follows


@pytest.mark.parametrize("device", DEVICES)
def test_empty_dimensions(device):
    options = {"device": device, "dtype": strata.bfloat16}
    offs = strata.tensor([0, 0], dtype=strata.int32, device=device)
    assert strata._grouped_mm(strata.ones(0, 4, **options), strata.ones(2, 4, 5, **options), offs).shape == (0, 5)
    y = strata._grouped_mm(strata.ones(3, 0, **options), strata.ones(2, 0, 5, **options), offs)
    assert y.tolist() == [[0.0] * 5] * 3
    y = strata._grouped_mm(strata.ones(3, 4, **options), strata.ones(4, 5, **options), offs)
    assert y.shape == (2, 3, 5) and not wide(y).any()
    y = strata._grouped_mm(strata.ones(3, 4, **options), strata.ones(0, 4, 5, **options), offs[:0])
    assert y.tolist() == [[0.0] * 5] * 3


@pytest.mark.parametrize("device", DEVICES)
def test_two_batches_are_bmm(device):
    rng = np.random.default_rng(4)
    a, b = (integers(rng, *s, dtype=strata.bfloat16, device=device) for s in ((3, 5, 8), (3, 8, 4)))
    assert strata.equal(strata._grouped_mm(a, b), strata.bmm(a, b))
    assert strata.equal(F.grouped_mm(a, b), strata.bmm(a, b))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind, device):
    rng = np.random.default_rng(5)
    a, b = operands(rng, kind, 3, 7, 4, 3, strata.float64, device)
    offs = strata.tensor([2, 2, 6], dtype=strata.int32, device=device)
    inputs = [strata.randn_like(t).requires_grad_() for t in (a, b)]
    assert strata.autograd.gradcheck(lambda a, b: F.grouped_mm(a, b, offs=offs), inputs)
    assert strata.autograd.gradgradcheck(lambda a, b: F.grouped_mm(a, b, offs=offs), inputs)


def test_gradients_of_16_bits_on_a_device():
    rng = np.random.default_rng(6)
    a, b = operands(rng, "rows", 4, 50, 24, 16, strata.bfloat16, GPU)
    offs = strata.tensor([9, 9, 30, 47], dtype=strata.int32)
    y = strata._grouped_mm(a.requires_grad_(), b.requires_grad_(), offs.to(GPU))
    g = integers(rng, 50, 24, dtype=strata.bfloat16, device=GPU)
    y.backward(g)
    want_a = expected("rows", wide(g), wide(b).transpose(0, 2, 1), offs.numpy())
    want_b = expected("depth", wide(a).T, wide(g), offs.numpy())
    np.testing.assert_array_equal(wide(a.grad), rounded(want_a, strata.bfloat16))
    np.testing.assert_array_equal(wide(b.grad), rounded(want_b, strata.bfloat16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", [[3, 2, 9], [3, 5, 10], [-1, 5, 9]])
def test_offsets_are_checked(kind, ends):
    for device in DEVICES:
        a, b = operands(np.random.default_rng(7), kind, 3, 9, 8, 8, strata.bfloat16, device)
        offs = strata.tensor(ends, dtype=strata.int32, device=device)
        with pytest.raises(RuntimeError, match="is out of order or beyond the size 9"):
            strata._grouped_mm(a, b, offs).cpu()
        assert strata.ones(2, device=device).sum().item() == 2  # the device stays usable


def test_bad_input():
    a, b, offs = strata.ones(8, 4), strata.ones(2, 4, 5), strata.tensor([3, 8], dtype=strata.int32)
    for call, error, text in [
        (lambda: strata._grouped_mm(a, b), RuntimeError, "Have to provide offsets"),
        (lambda: strata._grouped_mm(b, b.transpose(1, 2), offs), RuntimeError, "Have to provide offsets"),
        (lambda: strata._grouped_mm(a, b, offs.long()), RuntimeError, "vector of int32"),
        (lambda: strata._grouped_mm(a, b, offs[:1]), RuntimeError, "batch sizes have to match"),
        (lambda: strata._grouped_mm(a[:, :3], b, offs), RuntimeError, "contraction dimension"),
        (lambda: strata._grouped_mm(a, b.double(), offs), RuntimeError, "same dtype"),
        (lambda: strata._grouped_mm(a.int(), b.int(), offs), NotImplementedError, "not implemented for 'int32'"),
        (lambda: strata._grouped_mm(a[0], b, offs), RuntimeError, "expected matrices"),
        (lambda: strata._grouped_mm(a, b, offs, bias=a), NotImplementedError, "bias is not supported"),
        (lambda: strata._grouped_mm(a, b, offs, out_dtype=strata.float64), RuntimeError, "output dtype"),
        (lambda: strata._grouped_mm(a.to(GPU), b.to(GPU), offs), RuntimeError, "device"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_a_mixture_of_experts_learns():
    """Tokens sorted by expert, as a layer would do it: the same as a loop over experts."""
    rng = np.random.default_rng(8)
    tokens = strata.tensor(rng.standard_normal((20, 8))).to(strata.float32).to(GPU)
    experts = strata.tensor(rng.standard_normal((3, 8, 8))).to(strata.float32).to(GPU).requires_grad_()
    expert = strata.tensor(rng.integers(0, 3, 20)).to(GPU)
    order = expert.argsort(stable=True)
    offs = strata.bincount(expert, minlength=3).cumsum(0).to(strata.int32)
    y = strata._grouped_mm(tokens[order], experts, offs)
    want = np.stack([wide(tokens)[i] @ wide(experts)[wide(expert).astype(int)[i]] for i in wide(order).astype(int)])
    np.testing.assert_allclose(wide(y), want, rtol=1e-5, atol=1e-5)
    y.square().sum().backward()
    assert experts.grad.shape == experts.shape and np.isfinite(wide(experts.grad)).all()
