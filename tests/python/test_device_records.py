"""Tests generated from the op records, on the virtual GPU: each sample of each op with device kernels compared with the CPU, in every
dtype and other layouts, in place, and its gradient."""

import os

import pytest
import records
import strata
from records import RECORDS, label

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
# Records that only forward to others (composites) have no kernels of their own; they run where those do.
on_device = [r for r in RECORDS if r["cuda_kernels"] and r["samples"] and not r["name"].endswith("_")]
deterministic = [r for r in on_device if not r["random"]]
composites = [r for r in RECORDS if r["kind"] in ("composite", "view") and r["samples"] and not r["name"].endswith("_")]


def by_record(list_of_records):
    return pytest.mark.parametrize("record", list_of_records, ids=label)


def moved(record, arguments):
    """The arguments with every tensor on the device; creation ops get it as their device."""
    there = records.map_tensors(lambda t: t.to(DEVICE), arguments)
    if "device? device" in record["schema"] and not records.tensors(there):
        there["device"] = DEVICE
    return there


def compare(record, arguments, dtype, what):
    want = records.tensors(records.call(record, arguments))
    got = records.tensors(records.call(record, moved(record, arguments)))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype is w.dtype
        if w.device.type == "cpu" and "device" not in arguments:
            assert g.device == strata.device(DEVICE, 0), f"{what}: the result lies on {g.device}"
        records.assert_same(g.cpu(), w, dtype, what)


def test_every_record_with_kernels_has_one_for_devices():
    missing = [label(r) for r in RECORDS if r["kind"] in ("kernel", "pointwise") and not r["cuda_kernels"]]
    assert not missing


@by_record(deterministic)
def test_samples_agree_with_the_cpu(record):
    for dtype in record["dtypes"]:
        for text, arguments in records.samples(record, dtype):
            compare(record, arguments, dtype, f"{label(record)} ({text}) {dtype}")


def strided(t):
    """The same values with gaps between them, on the device."""
    if t.dim() == 0:
        return t.to(DEVICE)
    wide = strata.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)
    wide[..., ::2] = t
    return wide.to(DEVICE)[..., ::2]


@by_record([r for r in deterministic if r["kind"] == "pointwise" or r["name"] in ("copy", "clone", "cat", "flip")])
def test_layout_of_inputs_does_not_matter(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    for text, arguments in records.samples(record, dtype):
        want = records.tensors(records.call(record, arguments))
        got = records.tensors(records.call(record, records.map_tensors(strided, arguments)))
        for g, w in zip(got, want, strict=True):
            records.assert_same(g.cpu(), w, dtype, f"{label(record)} ({text})")


@by_record([r for r in deterministic if r["inplace"]])
def test_in_place(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    first = record["schema"].split("(", 1)[1].split()[1].rstrip(",)")
    for text, arguments in records.samples(record, dtype):
        want = records.call(record, arguments)
        there = moved(record, arguments)
        target = there.get(first)
        if not isinstance(target, strata.Tensor) or tuple(target.shape) != tuple(want.shape):
            continue
        if not strata.can_cast(want.dtype, target.dtype):
            continue
        result = strata._C.ops[record["name"] + "_"](target, **{k: v for k, v in there.items() if k != first})
        assert result is target
        records.assert_same(target.cpu(), want.to(target.dtype), dtype, f"{label(record)} ({text})")


def gradients(record, arguments, device):
    def leaf(t):
        if t.dtype is not strata.float64:
            return t.to(device)
        return t.to(device).clone().requires_grad_()

    leaves = {k: v if k in record["constants"] else records.map_tensors(leaf, v) for k, v in arguments.items()}
    leaves = {
        k: records.map_tensors(lambda t: t.to(device), v) if k in record["constants"] else v for k, v in leaves.items()
    }
    inputs = [t for t in records.tensors(leaves) if t.requires_grad and t.numel()]
    outs = [o for o in records.tensors(records.call(record, leaves)) if o.requires_grad]
    if not inputs or not outs:
        return []
    seeds = [(strata.arange(o.numel(), dtype=strata.float64).reshape(o.shape) * 0.25 + 1).to(device) for o in outs]
    return strata.autograd.grad(outs, inputs, seeds, allow_unused=True)


@by_record([r for r in deterministic if r["differentiable"] and strata.float64 in r["dtypes"]])
def test_gradient_agrees_with_the_cpu(record):
    for text, arguments in records.samples(record, strata.float64):
        try:
            want = gradients(record, arguments, "cpu")
        except NotImplementedError:  # there is no formula, which is the same everywhere
            with pytest.raises(NotImplementedError):
                gradients(record, arguments, DEVICE)
            continue
        except RuntimeError as e:  # the phase of complex vectors, which a gradient must not depend on
            assert "ill-defined" in str(e)
            with pytest.raises(RuntimeError, match="ill-defined"):
                gradients(record, arguments, DEVICE)
            continue
        got = gradients(record, arguments, DEVICE)
        for g, w in zip(got, want, strict=True):
            assert (g is None) == (w is None)
            if w is not None:
                assert g.device.type == DEVICE
                records.assert_same(g.cpu(), w, strata.float64, f"gradient of {label(record)} ({text})")


# Lengths and batch sizes stay in host memory: test_device_layers.py.
@by_record(
    [r for r in composites if not r["random"] and r["name"] not in ("_pack_padded_sequence", "_pad_packed_sequence")]
)
def test_composites_agree_with_the_cpu(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    for text, arguments in records.samples(record, dtype):
        compare(record, arguments, dtype, f"{label(record)} ({text}) {dtype}")
