"""Records what PyTorch computes for its own test samples with complex numbers, for tests/conformance/samples.py.

usage: record_conformance.py OUT.zip    (with a Python that has PyTorch and expecttest)

Calls the function of each OpInfo by its public name, so that a sample is a call a user can make. Samples with more numbers
than MOST are left out, and each op has at most PER_OP of them, chosen over the whole list.
"""

import argparse
import json
import pathlib
import sys
import warnings
import zipfile

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/conformance"))
import samples

MOST, PER_OP = 400, 16
GROUPS = ("linalg", "nn.functional", "fft")
# Random numbers, uninitialized memory, other layouts, internals, and names that PyTorch deprecates.
LEFT_OUT = (
    "empty", "rand", "uniform", "normal", "bernoulli", "multinomial", "dropout", "cauchy", "exponential", "geometric",
    "log_normal", "to_sparse", "sparse", "_segment", "_softmax_backward", "chalf", "jiterator", "lowrank", "stft",
    "masked.", "torch.ops", "_native", "_unsafe", "_batch_norm",
)  # fmt: skip
# Outputs whose phase is arbitrary are compared by their sizes.
TURNED = {"linalg.svd": (0, 2), "svd": (0, 2), "linalg.eigh": (1,), "linalg.eig": (1,)}


class Unsupported(Exception):
    pass


class Arrays:
    """Collects arrays; equal ones are stored once."""

    def __init__(self):
        self.blob, self.places = bytearray(), {}

    def add(self, array):
        data = np.ascontiguousarray(array).tobytes()
        if data not in self.places:
            self.blob += b"\0" * (-len(self.blob) % 16)
            self.places[data] = len(self.blob)
            self.blob += data
        return {"kind": array.dtype.str, "shape": list(array.shape), "at": self.places[data]}


def encode(x, tensors):
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided or x.dtype in (torch.bfloat16, torch.float16, torch.chalf):
            raise Unsupported(str(x.dtype))
        for i, t in enumerate(tensors):
            if t is x:
                return ["T", i]
        tensors.append(x)
        return ["T", len(tensors) - 1]
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if isinstance(x, complex):
        return ["complex", x.real, x.imag]
    if isinstance(x, slice):
        return ["slice", *[encode(v, tensors) for v in (x.start, x.stop, x.step)]]
    if isinstance(x, (list, tuple)):
        return ["list" if isinstance(x, list) else "tuple", *[encode(v, tensors) for v in x]]
    if x is ...:
        return ["..."]
    if isinstance(x, (torch.dtype, torch.memory_format)):
        return ["name", str(x).split(".")[-1]]
    if isinstance(x, torch.device):
        return ["device"]
    raise Unsupported(type(x).__name__)


def order_of(t):
    order = sorted(range(t.dim()), key=lambda d: (-t.stride(d), d))
    return order if t.dim() > 1 and t.numel() > 1 and order != list(range(t.dim())) else None


def path_of(name):
    for path in (f"torch.{name}", f"Tensor.{name}"):
        try:
            samples.resolve(torch, path)
            return path
        except samples.Absent:
            pass
    return None


def in_double(sample, arrays):
    return [a.astype(np.complex128) if a.dtype == np.complex64 else a for a in arrays]


def slack_of(narrow, wide):
    """How far PyTorch's own result is from the one in double precision, twice."""
    if narrow.shape != wide.shape or narrow.dtype.kind not in "fc" or not narrow.size:
        return 0.0
    error = np.abs(narrow.astype(np.complex128) - wide)
    return float(2 * np.nanmax(error)) if np.isfinite(error).any() else 0.0


def record(op, path, given, store):
    """One sample, or None if it has no place here."""
    tensors = []
    args = [encode(given.input, tensors), *[encode(v, tensors) for v in given.args]]
    kwargs = {k: encode(v, tensors) for k, v in given.kwargs.items()}
    if sum(t.numel() for t in tensors) > MOST:
        return None
    sample = {"args": args, "kwargs": kwargs, "tensors": [], "results": [], "grads": None, "differentiated": []}
    arrays = [t.detach().resolve_conj().resolve_neg().numpy() for t in tensors]
    for t, array in zip(tensors, arrays, strict=True):
        wanted = bool(t.requires_grad and op.supports_autograd)
        sample["tensors"].append(store.add(array) | {"order": order_of(t), "grad": wanted})
    outs = samples.call(torch, path, sample, arrays)[1]
    if any(t.is_complex() for t in tensors) is False and not any(
        isinstance(o, torch.Tensor) and o.is_complex() for o in outs
    ):
        return None
    if sum(o.numel() for o in outs if isinstance(o, torch.Tensor)) > MOST:
        return None
    try:
        wide = samples.call(torch, path, sample, in_double(sample, arrays))[1]
    except Exception:
        wide = outs
    turned, results, described = TURNED.get(op.name, ()), [], []
    for i, (o, w) in enumerate(zip(outs, wide, strict=True)):
        if not isinstance(o, torch.Tensor):
            described.append({"plain": encode(o, [])})
            continue
        if o.layout != torch.strided or o.dtype in (torch.bfloat16, torch.float16, torch.chalf):
            raise Unsupported(str(o.dtype))
        array = o.detach().resolve_conj().resolve_neg().numpy()
        slack = 0.0 if i in turned else slack_of(array, w.detach().resolve_conj().resolve_neg().numpy())
        check = "sizes" if i in turned else "values"
        described.append({"T": len(results), "dtype": samples.name_of(o.dtype), "check": check, "slack": slack})
        results.append(array)
    sample["outs"] = described
    if op.supports_autograd and any(t["grad"] for t in sample["tensors"]):
        with_history = samples.call(torch, path, sample, arrays, grad=True)[1]
        sample["differentiated"] = [
            i for i, o in enumerate(with_history) if isinstance(o, torch.Tensor) and o.requires_grad and i not in turned
        ]
        if sample["differentiated"]:
            try:
                found = samples.gradients(torch, path, sample, arrays)
                wide = samples.gradients(torch, path, sample, in_double(sample, arrays))
            except Exception:
                found = None
            if found is not None:
                sample["grads"] = []
                for g, w in zip(found, wide, strict=True):
                    if g is None:
                        sample["grads"].append(None)
                        continue
                    array = g.resolve_conj().resolve_neg().numpy()
                    slack = slack_of(array, w.resolve_conj().resolve_neg().numpy())
                    sample["grads"].append({"T": len(results), "dtype": samples.name_of(g.dtype), "slack": slack})
                    results.append(array)
    # A second call must have the same results: those of uninitialized memory and of random numbers have not.
    if samples.forward_outcome(torch, {"path": path}, sample, arrays, results, "cpu"):
        return None
    sample["results"] = [store.add(a) for a in results]
    return sample


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    store, index = Arrays(), []
    for op in op_db:
        group = next((g for g in GROUPS if op.name.startswith(g + ".")), "core" if "." not in op.name else None)
        if group is None or torch.complex64 not in op.dtypes or any(part in op.name for part in LEFT_OUT):
            continue
        path = path_of(op.name)
        if not path:
            continue
        torch.manual_seed(0)
        np.random.seed(0)
        kept = []
        try:
            given = list(op.sample_inputs("cpu", torch.complex64, requires_grad=op.supports_autograd))
        except Exception:
            continue
        for sample in given:
            try:
                found = record(op, path, sample, store)
            except Exception:
                continue
            if found:
                kept.append(found)
        step = max(1, -(-len(kept) // PER_OP))
        if kept:
            key = op.name + (f"[{op.variant_test_name}]" if op.variant_test_name else "")
            index.append({"key": key, "name": op.name, "group": group, "path": path, "samples": kept[::step]})
    packed, blob = Arrays(), bytes(store.blob)
    for op in index:  # only the arrays of the samples that stay
        for sample in op["samples"]:
            for d in sample["tensors"] + sample["results"]:
                count = int(np.prod(d["shape"]))
                d.update(packed.add(np.frombuffer(blob, np.dtype(d["kind"]), count, d["at"]).reshape(d["shape"])))
    with zipfile.ZipFile(args.out, "w", zipfile.ZIP_LZMA) as z:
        for name, data in (("index.json", json.dumps(index)), ("numbers", bytes(packed.blob))):
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_LZMA)
    count = sum(len(op["samples"]) for op in index)
    print(f"{len(index)} ops, {count} samples, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
