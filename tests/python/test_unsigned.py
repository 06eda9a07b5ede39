"""uint16, uint32 and uint64 compared with NumPy: conversions, arithmetic, order, printing, files."""

import itertools

import numpy as np
import pytest
import strata

DEVICES = ["cpu", "vgpu"]
UNSIGNED = ["uint16", "uint32", "uint64"]
COMPUTED = ["uint16", "uint32"]
EDGES = [
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
]


def edges(name):
    top = np.iinfo(name).max
    return np.array([v for v in EDGES if v <= top], dtype=name)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_numpy_there_and_back(name, device):
    x = edges(name)
    t = strata.from_numpy(x.copy()).to(device)
    assert t.dtype == getattr(strata, name) and t.itemsize == x.itemsize
    assert t.tolist() == x.tolist()
    assert (t.cpu().numpy() == x).all()
    assert strata.from_dlpack(t.cpu()).tolist() == x.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize(
    "other", ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float32", "float64"]
)
def test_conversions_match_numpy(name, other, device):
    x = edges(name)
    t = strata.from_numpy(x.copy()).to(device)
    assert t.to(getattr(strata, other)).tolist() == x.astype(other).tolist()
    strided = t.repeat_interleave(2)[::2]
    assert strided.to(getattr(strata, other)).tolist() == x.astype(other).tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_floats_become_unsigned(name, device):
    top = float(np.iinfo(name).max)
    values = [v for v in [0.0, 0.9, 1.5, 255.7, 65535.0, 4294967295.0, 2.0**63, 2.0**64 - 2048] if v <= top]
    t = strata.tensor(values, dtype=strata.float64, device=device)
    assert t.to(getattr(strata, name)).tolist() == [int(v) for v in values]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_xor", "eq", "lt", "ge"]
)
def test_arithmetic_matches_numpy(name, op, device):
    x = edges(name)
    a, b = (np.array(v, dtype=name) for v in zip(*itertools.product(x, x), strict=True))
    ours = getattr(strata, op)(strata.from_numpy(a).to(device), strata.from_numpy(b).to(device))
    numpy_name = {"sub": "subtract", "mul": "multiply", "eq": "equal", "lt": "less", "ge": "greater_equal"}.get(op, op)
    expected = getattr(np, numpy_name)(a, b)
    assert ours.tolist() == expected.tolist()
    assert ours.dtype == (strata.bool if expected.dtype == bool else getattr(strata, name))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", COMPUTED)
def test_reductions_sorts_and_indices(name, device):
    x = edges(name)[::-1].copy()
    t = strata.from_numpy(x).to(device)
    assert t.sum().item() == int(x.astype(object).sum()) and t.sum().dtype == strata.int64
    assert t.max().item() == x.max() and t.argmin().item() == x.argmin()
    assert t.sort().values.tolist() == sorted(x.tolist())
    assert t.sort(descending=True).values.tolist() == sorted(x.tolist(), reverse=True)
    assert t.topk(2).values.tolist() == sorted(x.tolist())[-1:-3:-1]
    assert t[1:3].tolist() == x[1:3].tolist() and t[t > 200].tolist() == x[x > 200].tolist()
    assert t.unique().tolist() == sorted(set(x.tolist()))
    assert (t // 3).tolist() == (x // 3).tolist() and (t % 7).tolist() == (x % 7).tolist()
    assert t.float().mean().item() == pytest.approx(float(x.astype(np.float32).mean()))


@pytest.mark.parametrize(
    "a, b, common",
    [
        ("uint16", "bool", "uint16"), ("uint16", "uint8", "uint16"), ("uint32", "uint16", "uint32"),
        ("uint64", "uint32", "uint64"), ("uint16", "int8", "int32"), ("uint16", "int16", "int32"),
        ("uint16", "int32", "int32"), ("uint32", "int8", "int64"), ("uint32", "int32", "int64"),
        ("uint32", "int64", "int64"), ("uint16", "float16", "float16"), ("uint64", "float32", "float32"),
        ("uint8", "int8", "int16"),
    ],
)  # fmt: skip
def test_promotion(a, b, common):
    for x, y in ((a, b), (b, a)):
        assert strata.promote_types(getattr(strata, x), getattr(strata, y)) == getattr(strata, common)
    x, y = strata.ones(2, dtype=getattr(strata, a)), strata.ones(2, dtype=getattr(strata, b))
    if "uint64" != common:
        assert (x + y).dtype == getattr(strata, common)
    assert (strata.ones(2, dtype=getattr(strata, a)).to(getattr(strata, common)).tolist()) == [1] * 2


def test_uint64_has_no_common_type_with_signed_ones():
    with pytest.raises(RuntimeError, match="uint64 and int64 have no common type"):
        strata.promote_types(strata.uint64, strata.int64)


@pytest.mark.parametrize("device", DEVICES)
def test_uint64_is_stored_and_not_computed(device):
    x = np.array([[2**64 - 1, 2**63], [5, 0]], dtype=np.uint64)
    t = strata.from_numpy(x.copy()).to(device)
    assert t[0, 0].item() == 2**64 - 1 and int(t[0, 0]) == 2**64 - 1 and bool(t[0, 1]) and not bool(t[1, 1])
    assert float(t[0, 1]) == 2.0**63
    assert "18446744073709551615" in repr(t)
    assert t.t().contiguous().tolist() == x.T.tolist()
    assert strata.cat([t, t]).tolist() == np.concatenate([x, x]).tolist()
    assert t.sort().values.tolist() == np.sort(x).tolist()
    for refused in (lambda: t + t, lambda: t * 2, lambda: t < t, lambda: t.sum(), lambda: t.max()):
        with pytest.raises(NotImplementedError, match="uint64"):
            refused()


@pytest.mark.parametrize("name", UNSIGNED)
def test_files_keep_them(name, tmp_path):
    t = strata.from_numpy(edges(name).copy())
    for file in ("a.safetensors", "a.pt"):
        strata.save({"x": t}, tmp_path / file)
        back = strata.load(tmp_path / file)["x"]
        assert back.dtype == t.dtype and back.tolist() == t.tolist()


@pytest.mark.parametrize("name", UNSIGNED)
def test_limits_and_creation(name):
    dtype = getattr(strata, name)
    info = strata.iinfo(dtype)
    assert (info.min, info.max, info.bits) == (0, np.iinfo(name).max, np.iinfo(name).bits)
    assert not dtype.is_signed and not dtype.is_floating_point
    assert strata.zeros(2, dtype=dtype).tolist() == [0, 0] and strata.full((2,), 7, dtype=dtype).tolist() == [7, 7]
    assert strata.tensor([1, 2], dtype=dtype).tolist() == [1, 2]
    if name != "uint64":
        with pytest.raises(RuntimeError, match="overflow"):
            strata.tensor([info.max + 1], dtype=dtype)
        assert strata.arange(5, dtype=dtype).tolist() == [0, 1, 2, 3, 4]
        assert 0 <= strata.randint(0, info.max, (100,), dtype=dtype).min().item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UNSIGNED)
def test_empty_and_scalar(name, device):
    dtype = getattr(strata, name)
    assert strata.empty(0, 3, dtype=dtype, device=device).tolist() == []
    assert strata.tensor(3, dtype=dtype, device=device).item() == 3
    assert strata.zeros(0, dtype=dtype, device=device).float().sum().item() == 0
