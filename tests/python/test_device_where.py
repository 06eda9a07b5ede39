"""where() of contiguous tensors of one type on a device has a kernel of its own, which moves bits. Others use that of pointwise ops."""

import numpy as np
import pytest
import strata
from gpu_tensors import DEVICE

DTYPES = ["bool", "uint8", "int8", "int16", "float16", "bfloat16", "int32", "float32", "int64", "float64", "uint64"]


def tensors(dtype, count, seed=0):
    random = np.random.default_rng(seed)
    kind = getattr(strata, dtype)
    values = [strata.tensor(random.integers(0, 2 if dtype == "bool" else 100, count)).to(kind) for _ in range(2)]
    return strata.tensor(random.random(count) < 0.5), *values


def kernels(*args):
    return {name: reason for _, name, reason in strata.explain(strata.where, *args)}


def check(condition, yes, no):
    expected = np.where(condition.numpy(), yes.double().numpy(), no.double().numpy())
    on_device = [t.to(DEVICE) for t in (condition, yes, no)]
    found = strata.where(*on_device)
    assert found.dtype == yes.dtype and np.array_equal(found.cpu().double().numpy(), expected)
    return on_device


@pytest.mark.parametrize("dtype", DTYPES)
def test_has_numpys_values(dtype):
    for count in (0, 1, 2, 7, 8, 15, 16, 17, 31, 255, 4095, 4096, 4097, 9001):
        on_device = check(*tensors(dtype, count, count))
        assert kernels(*on_device)["same_type"].startswith("chosen")


def test_bits_of_nans_and_zeros_are_kept():
    bits = strata.tensor([0x7FC00001, -0x400000, -0x80000000, 0x7F800001], dtype=strata.int32)
    yes = bits.view(strata.float32).to(DEVICE)
    no = strata.zeros(4, device=DEVICE)
    on = strata.tensor([True, True, True, False]).to(DEVICE)
    assert strata.where(on, yes, no).cpu().view(strata.int32).tolist() == [*bits.tolist()[:3], 0]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (lambda c, a, b: (c, a, 0.5), "number"),
        (lambda c, a, b: (c, a.double(), b), "converted"),
        (lambda c, a, b: (c.to(strata.uint8), a, b), "converted"),
        (lambda c, a, b: (c[:1], a, b), "broadcast or strided"),
        (lambda c, a, b: (c.reshape(8, 8).t(), a.reshape(8, 8), b.reshape(8, 8)), "broadcast or strided"),
        (lambda c, a, b: (c[:63], a[1:], b[:63]), "multiple of 16 bytes"),
    ],
)
def test_other_operands_use_the_kernel_of_pointwise_ops(arguments, why):
    host = tensors("float32", 64)
    mine = arguments(*(t.to(DEVICE) for t in host))
    assert why in kernels(*mine)["same_type"]
    expected = arguments(*host)
    assert strata.equal(strata.where(*mine).cpu(), strata.where(*expected))


def test_gradients_and_out():
    c, a, b = (t.to(DEVICE) for t in tensors("float32", 40))
    a.requires_grad_(), b.requires_grad_()
    strata.where(c, a, b).sum().backward()
    assert strata.equal(a.grad, c.float()) and strata.equal(b.grad, (~c).float())
    into = strata.zeros(41, device=DEVICE)
    strata.where(c, a.detach(), b.detach(), out=into[1:])
    assert strata.equal(into[1:], strata.where(c, a.detach(), b.detach())) and into[0] == 0
