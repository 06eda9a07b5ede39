"""Recorded calls of PyTorch's functions with complex numbers, and how to make these calls in a module with its names.

usage: samples.py --path PACKAGE_FOLDER --json OUT [--device cpu] [--ops REGEX]

A file of samples is a zip archive of `index.json` and `numbers`, the bytes of all arrays one after the other. An op of the
index has a path ("torch.linalg.qr"), its group, and samples. A sample has the tensors, the arguments, the results and the
gradients that PyTorch computed. Values are plain JSON, or lists that begin with a kind: ["T", i] is tensor i of the sample.
"""

import argparse
import importlib
import json
import pathlib
import re
import sys
import warnings
import zipfile

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
RTOL, ATOL = 1e-4, 1e-5  # complex64: sums may be in another order


class Absent(Exception):
    """The module has no such name."""


def resolve(mod, path):
    """The function at "torch.linalg.qr"; "Tensor.view" gives a function that calls the method, or reads the property."""
    parts = path.split(".")
    if parts[0] == "Tensor":
        if not hasattr(mod.Tensor, parts[1]):
            raise Absent(path)

        def method(self, *args, **kwargs):
            found = getattr(self, parts[1])
            return found(*args, **kwargs) if callable(found) and not isinstance(found, mod.Tensor) else found

        return method
    found = mod
    for part in parts[1:]:
        if not hasattr(found, part):
            raise Absent(path)
        found = getattr(found, part)
    return found


def decoded(mod, value, tensors, device):
    if not isinstance(value, list):
        return value
    kind, *rest = value
    if kind == "T":
        return tensors[rest[0]]
    if kind in ("list", "tuple", "slice"):
        items = [decoded(mod, v, tensors, device) for v in rest]
        return items if kind == "list" else tuple(items) if kind == "tuple" else slice(*items)
    if kind == "complex":
        return complex(*rest)
    if kind == "name":
        return getattr(mod, rest[0])
    if kind == "device":
        return device
    assert kind == "...", kind
    return ...


def leaves(x):
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for i in x for leaf in leaves(i)] if isinstance(x, (tuple, list)) else [x]


def call(mod, path, sample, arrays, device="cpu", grad=False):
    """The tensors of the sample, and the results as one list."""
    function, tensors = resolve(mod, path), []
    for t, array in zip(sample["tensors"], arrays, strict=True):
        if t["order"]:  # the memory order of the dimensions
            array = np.ascontiguousarray(array.transpose(t["order"])).transpose(np.argsort(t["order"]))
        x = mod.from_numpy(array.copy() if not t["order"] else array)
        x = x if device == "cpu" else x.to(device)
        tensors.append(x.requires_grad_() if grad and t["grad"] else x)
    args = [decoded(mod, v, tensors, device) for v in sample["args"]]
    kwargs = {k: decoded(mod, v, tensors, device) for k, v in sample["kwargs"].items()}
    return tensors, leaves(function(*args, **kwargs))


def cotangent(shape, is_complex):
    n = int(np.prod(shape))
    re = ((np.arange(n) * 7) % 13 - 6.5) / 8
    both = re + 1j * (((np.arange(n) * 5) % 11 - 5.5) / 8) if is_complex else re
    return both.astype(np.complex64 if is_complex else np.float32).reshape(shape)


def gradients(mod, path, sample, arrays, device="cpu"):
    tensors, outs = call(mod, path, sample, arrays, device, grad=True)
    outs = [outs[i] for i in sample["differentiated"] if outs[i].requires_grad or outs[i].numel()]
    given = []
    for o in outs:
        c = mod.from_numpy(cotangent(tuple(o.shape), o.is_complex())).to(o.dtype)
        given.append(c if device == "cpu" else c.to(device))
    wanted = [t for t, s in zip(tensors, sample["tensors"], strict=True) if s["grad"]]
    return mod.autograd.grad(outs, wanted, given, allow_unused=True)


def numbers(t):
    return np.asarray(t.detach().cpu().numpy())


def name_of(dtype):
    return str(dtype).split(".")[-1]


def difference(got, want, check="values", slack=0.0):
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if check == "shape":
        return ""
    if check == "sizes":  # the phase is arbitrary
        got, want = np.abs(got), np.abs(want)
    if got.dtype.kind in "fc":
        same = np.isclose(got, want, rtol=RTOL, atol=ATOL + slack, equal_nan=True)
    else:
        same = got == want
    if same.all():
        return ""
    worst = np.abs(got.astype(np.complex128) - want.astype(np.complex128))[~same]
    return f"{int((~same).sum())} of {same.size} values differ, by up to {np.nanmax(worst) if np.isfinite(worst).any() else np.nan:.3g}"


def forward_outcome(mod, op, sample, arrays, results, device):
    outs = call(mod, op["path"], sample, arrays, device)[1]
    if len(outs) != len(sample["outs"]):
        return f"{len(outs)} outputs, expected {len(sample['outs'])}"
    for got, want in zip(outs, sample["outs"], strict=True):
        if "plain" in want:
            expected = decoded(mod, want["plain"], [], device)
            if not (got == expected or (isinstance(got, (float, complex)) and abs(got - expected) < ATOL)):
                return f"{got!r}, expected {expected!r}"
            continue
        if not isinstance(got, mod.Tensor):
            return f"{type(got).__name__}, expected a tensor"
        if name_of(got.dtype) != want["dtype"]:
            return f"dtype {name_of(got.dtype)}, expected {want['dtype']}"
        reason = difference(numbers(got), results[want["T"]], want["check"], want["slack"])
        if reason:
            return reason
    return ""


def backward_outcome(mod, op, sample, arrays, results, device):
    found = gradients(mod, op["path"], sample, arrays, device)
    for i, (got, want) in enumerate(zip(found, sample["grads"], strict=True)):
        expected = results[want["T"]] if want else None
        if got is None or expected is None:  # no gradient is one of zeros
            if np.any((expected if got is None else numbers(got)) if got is not None or want else 0):
                return f"gradient {i} {'missing' if got is None else 'unexpected'}"
            continue
        if name_of(got.dtype) != want["dtype"]:
            return f"gradient {i} dtype {name_of(got.dtype)}, expected {want['dtype']}"
        reason = difference(numbers(got), expected, slack=want["slack"])
        if reason:
            return f"gradient {i}: {reason}"
    return ""


def outcome(check, *args):
    try:
        reason = check(*args)
        return ("wrong", reason) if reason else ("pass", "")
    except Absent as e:
        return "missing", str(e)
    except Exception as e:
        return "raised", f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"[:160]


def load(file):
    """The index, and a function from the description of an array to the array."""
    with zipfile.ZipFile(file) as z:
        index, blob = json.loads(z.read("index.json")), z.read("numbers")

    def array(d):
        dtype, count = np.dtype(d["kind"]), int(np.prod(d["shape"]))
        return np.frombuffer(blob, dtype, count, d["at"]).reshape(d["shape"])

    return index, array


def replay(mod, file, device="cpu", ops=""):
    """An entry per op in the form of the results that tools/conformance.py reads."""
    index, array = load(file)
    entries = []
    for op in index:
        if not re.search(ops, op["key"]):
            continue
        entry = {k: op[k] for k in ("key", "name", "group")} | {
            "run": pathlib.Path(file).stem,
            "extras": 0,
            "outcomes": [],
        }
        entry["samples"] = len(op["samples"])
        entry["gradients"] = sum(s["grads"] is not None for s in op["samples"])
        try:
            resolve(mod, op["path"])
            entry["present"] = True
        except Absent:
            entry["present"] = False
        for i, sample in enumerate(op["samples"] if entry["present"] else []):
            arrays = [array(t) for t in sample["tensors"]]
            results = [array(t) for t in sample["results"]]
            args = (mod, op, sample, arrays, results, device)
            entry["outcomes"].append((i, "forward", *outcome(forward_outcome, *args)))
            if sample["grads"] is not None:
                entry["outcomes"].append((i, "backward", *outcome(backward_outcome, *args)))
        entries.append(entry)
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ops", default="")
    args = parser.parse_args()
    sys.path.insert(0, args.path)
    warnings.simplefilter("ignore")
    mod = importlib.import_module("strata")
    entries = [e for file in sorted(FOLDER.glob("*.zip")) for e in replay(mod, file, args.device, args.ops)]
    pathlib.Path(args.json).write_text(json.dumps({"ops": entries}))


if __name__ == "__main__":
    main()
