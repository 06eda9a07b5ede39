"""autocast: the dtypes of all ops against PyTorch's, and gradients."""

import json
import pathlib

import autocast_cases
import pytest
import records
import strata
from strata import _C

PEER = json.loads((pathlib.Path(__file__).parent / "autocast_dtypes.json").read_text())
RECORDS = autocast_cases.records()
POLICY = {n: (r["autocast_cpu"], r["autocast_cuda"]) for n, r in RECORDS.items()}
TOUCHED = [n for n in RECORDS if n in PEER or POLICY[n] != ("none", "none")]
DEVICES = {"cpu": "cpu", "cuda": "vgpu"}  # where the lists of a device type are tested

# Samples whose results differ from PyTorch's on purpose: record, device type, part of the text.
DIFFERENT = (
    ("nn.functional.pad", "cpu", "mode="),  # moving values needs no float32: PyTorch's kernels had no 16-bit types
    ("nn.functional.pad", "cpu", "'reflect'"),
    ("nn.functional.local_response_norm", "cpu", "f(2,5,3,2)"),  # PyTorch uses a 3-d pool for it, which is on its list
    ("nn.functional.mse_loss", "cpu", "weight="),  # PyTorch does not call the listed op then
    ("lstm.data", "cpu", ""),  # one kernel runs a layer, in one dtype
    ("nn.functional.affine_grid", "cuda", ""),  # a product; fake tensors decompose it
    ("lu", "cpu", ""),  # the op returns `info` too
)


def differs(name, kind, text):
    return any(n == name and k == kind and part in text for n, k, part in DIFFERENT)


def run(record, arguments, device, enabled=True):
    """The dtypes of the results, or "error"."""
    there = records.map_tensors(lambda t: t.to(device), arguments)
    lower = getattr(strata, autocast_cases.LOWER["cpu" if device == "cpu" else "cuda"])
    try:
        with strata.autocast(device, dtype=lower, enabled=enabled):
            return autocast_cases.dtypes_of(records.callable_of(record)(**there), strata.Tensor)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as e:
        return f"error: {e}"


@pytest.mark.parametrize("name", TOUCHED)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_dtypes_are_those_of_pytorch(name, kind):
    record = RECORDS[name]
    for case_kind, dtype in autocast_cases.CASES:
        if case_kind != kind:
            continue
        answers = PEER.get(name, {}).get(f"{kind} {dtype}", {})
        for text, arguments in autocast_cases.samples(record, dtype):
            want = answers.get(text)
            if want == "skipped" or differs(name, kind, text):
                continue
            got = run(record, arguments, DEVICES[kind])
            if want is None:
                want = run(record, arguments, DEVICES[kind], enabled=False)
            if want.startswith("error"):
                assert got.startswith("error") or kind == "cpu", f"{text}: {got}, PyTorch rejects the call"
            else:
                assert got == want, f"{name}({text}) of {dtype} on {kind}: {got}, expected {want}"


def test_ops_without_a_policy_keep_their_dtypes():
    for name, record in RECORDS.items():
        if name in TOUCHED or name in PEER["missing"]:
            continue
        for dtype in ("float32", "bfloat16"):
            for text, arguments in autocast_cases.samples(record, dtype):
                plain, cast = run(record, arguments, "cpu", enabled=False), run(record, arguments, "cpu")
                assert cast == plain, f"{name}({text}) of {dtype}"


LOWERED = [n for n, p in POLICY.items() if p[0] == "lower" and RECORDS[n]["differentiable"]]


@pytest.mark.parametrize("name", LOWERED)
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_gradients_are_close_to_those_of_float32(name, device):
    record = RECORDS[name]
    for text, arguments in autocast_cases.samples(record, "float32"):
        if text.startswith(("!", "~!")):
            continue
        grads = []
        for enabled in (False, True):
            leaves = []

            def leaf(t, leaves=leaves):
                t = t.to(device)
                if t.is_floating_point():
                    leaves.append(t.detach().clone().requires_grad_())
                    return leaves[-1]
                return t

            there = records.map_tensors(leaf, arguments)
            with strata.autocast(device, dtype=strata.bfloat16, enabled=enabled):
                out = records.tensors(records.callable_of(record)(**there))
            loss = sum((o.float() ** 2).sum() for o in out if o.is_floating_point())
            if not loss.requires_grad:
                break
            loss.backward()
            grads.append([t.grad for t in leaves])
        for want, got in zip(*grads, strict=True) if grads else ():
            assert (got is None) == (want is None)
            if got is None:
                continue
            assert got.dtype is strata.float32
            error, size = (got - want).double().norm().item(), want.double().norm().item()
            assert error <= 0.04 * size + 1e-6, f"{name}({text}): gradient off by {error} of {size}"


def test_policies_are_part_of_the_records():
    assert POLICY["matmul"] == ("lower", "lower") and POLICY["exp"] == ("none", "float32")
    assert POLICY["softmax"] == ("none", "float32_result") and POLICY["cat"] == ("promote", "none")
    assert POLICY["nn.functional.binary_cross_entropy"] == ("float32", "refuse")
    for record in _C._records():
        if "float32_result" in (record["autocast_cpu"], record["autocast_cuda"]):
            assert "dtype? dtype" in record["schema"]
