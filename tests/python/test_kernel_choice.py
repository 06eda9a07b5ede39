"""Kernels of a list: what explain() says about each, on every back end; tuning; LAPACK compared with our own."""

import numpy as np
import pytest
import strata
from strata import _C

F = strata.nn.functional


def considered(f, *args, **kwargs):
    """(kernel, verdict) of the last op that ran a kernel."""
    lines = strata.explain(f, *args, **kwargs)
    return [(kernel, reason) for op, kernel, reason in lines if op == lines[-1][0]]


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda x: strata.matmul(x(256, 32), x(32, 256)), "tiles"),
        (lambda x: strata.matmul(x(8, 4096), x(4096, 8)), "tiles_in_parts"),
        (lambda x: strata.softmax(x(4, 64), -1), "rows_in_registers"),
        (lambda x: strata.softmax(x(4, 64), 0), "lines"),
        (lambda x: strata.softmax(x(4, 63), -1), "lines"),
        (lambda x: x(64, 1024).sum(1), "rows"),
        (lambda x: x(256, 128).sum(0), "columns"),
        (lambda x: x(64, 6)[:, 1:4].sum(1), "strided"),
        (lambda x: F.conv2d(x(1, 2, 8, 8), x(3, 2, 3, 3)), "implicit_gemm_f32"),
        (lambda x: F.conv2d(x(1, 2, 8, 8).double(), x(3, 2, 3, 3).double()), "implicit_gemm"),
    ],
)
def test_devices_choose_among_entries(call, want):
    strata.manual_seed(0)
    lines = strata.explain(call, lambda *shape: strata.randn(*shape, device="vgpu"))
    assert lines[-1][1] == want and lines[-1][2].startswith("chosen"), lines
    strata.manual_seed(0)
    there = call(lambda *shape: strata.randn(*shape).to("vgpu")).cpu()
    strata.manual_seed(0)
    here = call(lambda *shape: strata.randn(*shape))
    np.testing.assert_allclose(there.numpy(), here.numpy(), rtol=1e-4, atol=1e-4)


def test_a_plan_tells_its_workspace():
    a, b = strata.randn(8, 4096, device="vgpu"), strata.randn(4096, 8, device="vgpu")
    assert "bytes of workspace" in strata.explain(strata.matmul, a, b)[-1][2]
    want = strata.matmul(a, b).cpu()
    strata.set_workspace_limit(0)
    try:
        lines = considered(strata.matmul, a, b)
        assert lines[-2][0] == "tiles_in_parts" and "the limit is 0" in lines[-2][1]
        assert lines[-1][0] == "tiles"
        np.testing.assert_allclose(strata.matmul(a, b).cpu().numpy(), want.numpy(), rtol=1e-4, atol=1e-4)
        with pytest.raises(NotImplementedError, match="workspace"):
            strata.randn(1 << 15, device="vgpu")[::2].reshape(-1, 4).T.softmax(0)  # every plan copies it first
    finally:
        strata.set_workspace_limit(None)


def test_strided_inputs_are_copied_to_the_workspace():
    x = strata.randn(6, 64, 2, device="vgpu")[..., 0]
    assert "bytes of workspace" in strata.explain(strata.softmax, x, -1)[-1][2]
    np.testing.assert_allclose(x.softmax(-1).cpu().numpy(), x.cpu().softmax(-1).numpy(), rtol=1e-5, atol=1e-6)


def test_tuning_measures_and_forgets():
    x = strata.randn(96, 96)
    with strata.tune() as t:
        y = x @ x
    try:
        assert strata.equal(y, x @ x) or np.allclose(y.numpy(), (x @ x).numpy(), rtol=1e-4, atol=1e-4)
        assert " us" in strata.explain(strata.matmul, x, x)[-1][2]
        assert " us" not in strata.explain(strata.matmul, x[:50], x)[-1][2]
    finally:
        t.forget()
    assert " us" not in strata.explain(strata.matmul, x, x)[-1][2]


LARGE = 160  # beyond most thresholds
DECOMPOSITIONS = {
    "cholesky": lambda a: [strata.linalg.cholesky(a @ a.mT + LARGE * strata.eye(a.shape[-1], dtype=a.dtype))],
    "lu": lambda a: list(strata.linalg.lu_factor(a)),
    "qr": lambda a: list(strata.linalg.qr(a)),
    "eigh": lambda a: list(strata.linalg.eigh(a + a.mT)),
    "svdvals": lambda a: [strata.linalg.svdvals(a)],
    "svd": lambda a: list(strata.linalg.svd(a, full_matrices=False)),
    "solve": lambda a: [strata.linalg.solve(a, a.mT)],
    "inv": lambda a: [strata.linalg.inv(a)],
    "det": lambda a: [strata.linalg.slogdet(a).logabsdet],
    "triangular": lambda a: [
        strata.linalg.solve_triangular(a.tril() + LARGE * strata.eye(LARGE, dtype=a.dtype), a, upper=False),
        strata.linalg.solve_triangular((a.tril() + LARGE * strata.eye(LARGE, dtype=a.dtype)).mT, a, upper=True),
        strata.linalg.solve_triangular(a, a, upper=True, unitriangular=True) * 0,
    ],
    "wide": lambda a: [*strata.linalg.qr(a[:150]), *strata.linalg.svd(a[:150], full_matrices=True)[1:2]],
    "tall": lambda a: [*strata.linalg.qr(a[:, :150], mode="complete"), *strata.linalg.svd(a[:, :150])[1:2]],
}


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_lapack_agrees_with_our_own(name):
    """If OpenBLAS is installed it is used for large matrices; otherwise the reason is given and both runs use our own."""
    strata.manual_seed(1)
    a = (
        strata.randn(2, LARGE, LARGE, dtype=strata.float64)
        if name in ("cholesky", "eigh")
        else strata.randn(LARGE, LARGE, dtype=strata.float64)
    )
    kernels = {kernel: reason for _, kernel, reason in strata.explain(DECOMPOSITIONS[name], a)}
    assert "lapack" in kernels
    assert kernels["lapack"] == "chosen" or "OpenBLAS" in kernels["lapack"] or "small" in kernels["lapack"]
    before = _C._set_reference_only(True)
    try:
        want = DECOMPOSITIONS[name](a)
    finally:
        _C._set_reference_only(before)
    for got, expected in zip(DECOMPOSITIONS[name](a), want, strict=True):
        scale = max(1.0, float(expected.double().abs().max()))
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6, atol=1e-8 * scale)


def test_libraries_are_listed_with_reasons():
    found = {entry["name"]: entry for entry in strata.cuda.libraries()}
    assert set(found) == {"NVRTC", "cuBLASLt", "cuDNN", "NCCL", "NVML"}
    for entry in found.values():
        assert bool(entry["why_not"]) != bool(entry["version"]) or "needed" in entry["why_not"]
        assert entry["why_not"] or entry["path"].startswith("/")
