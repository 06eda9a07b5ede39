"""Checks that Strata rejects what PyTorch rejects: the error inputs of PyTorch's own tests. Needs PyTorch 2.15 and its test tools.

usage: error_inputs.py [--write] [--path PACKAGE_FOLDER]

Prints how many calls are rejected with PyTorch's exception type and lists the rest. With --write, tests/python/error_inputs.json
is updated: the calls that Strata rejects, which the suite replays without PyTorch.
"""

import argparse
import collections
import json
import os
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))
import error_cases  # noqa: E402

KEPT_VALUES = 12  # of a tensor of floats; of larger ones only the number of elements


class Unsupported(Exception):
    """Arguments of a kind that Strata does not have: the case is skipped."""


class Encoder:
    """Turns the arguments of one call into JSON; tensors that share memory keep doing so."""

    def __init__(self, torch, dtypes):
        self.torch, self.dtypes, self.storages, self.objects = torch, dtypes, {}, {}

    def __call__(self, value):
        torch = self.torch
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else {"float": str(value)}
        if isinstance(value, list):
            return [self(v) for v in value]
        if isinstance(value, tuple):
            return {"tuple": [self(v) for v in value]}
        if isinstance(value, set):
            return {"set": [self(v) for v in value]}
        if isinstance(value, dict) and all(isinstance(k, str) for k in value):
            return {"dict": {k: self(v) for k, v in value.items()}}
        if isinstance(value, torch.dtype) and str(value).split(".")[1] in self.dtypes:
            return {"dtype": str(value).split(".")[1]}
        raise Unsupported(f"{type(value).__name__} {value}"[:60])

    def tensor(self, t):
        dtype = str(t.dtype).split(".")[1]
        if dtype not in self.dtypes:
            raise Unsupported(f"dtype {dtype}")
        if t.layout != self.torch.strided or t.device.type != "cpu" or t.is_quantized or t.is_nested:
            raise Unsupported(f"{t.layout} on {t.device}")
        key = t.untyped_storage().data_ptr() or id(t)
        self.objects.setdefault(id(t), (len(self.objects), t))
        storage = self.storages.setdefault(key, len(self.storages))
        count = len(t.untyped_storage()) // t.element_size()
        flat = t.detach().as_strided((count,), (1,), 0)
        plain = {
            "tensor": list(t.shape),
            "dtype": dtype,
            "strides": list(t.stride()),
            "object": self.objects[id(t)][0],
            "storage": storage,
            "values": self.values(flat),
        }
        rare = {"offset": t.storage_offset(), "requires_grad": t.requires_grad}
        return plain | {name: value for name, value in rare.items() if value}

    def values(self, flat):
        if flat.dtype.is_floating_point and len(flat) > KEPT_VALUES:
            return {"count": len(flat)}
        items = flat.to(self.torch.float64).tolist() if flat.dtype.is_floating_point else flat.tolist()
        return [
            round(v, 3) if isinstance(v, float) and abs(v) < 1e30 else str(v) if v != v or v in (INF, -INF) else v
            for v in items
        ]


INF = float("inf")


def names(error_type):
    types = error_type if isinstance(error_type, tuple) else (error_type,)
    return [t.__name__ for t in types]


def op_cases(torch, dtypes):
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if op.error_inputs_func is None:
            continue
        name = op.name + ("_" if op.variant_test_name == "in_place" else "")
        for e in op.error_inputs("cpu"):
            encode, s = Encoder(torch, dtypes), e.sample_input
            yield (
                name,
                e,
                lambda encode=encode, s=s: {
                    "args": [encode(v) for v in (s.input, *s.args)],
                    "kwargs": {k: encode(v) for k, v in s.kwargs.items()},
                },
            )


def module_cases(torch, dtypes):
    from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

    for info in module_db:
        if info.module_error_inputs_func is None:
            continue
        name = "nn." + info.module_cls.__name__
        inputs = info.module_error_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
        for e in inputs:

            def case(e=e):
                encode, given = Encoder(torch, dtypes), e.module_error_input
                made = given.constructor_input
                late = e.error_on == ModuleErrorEnum.FORWARD_ERROR
                forward = given.forward_input if late else None
                return {
                    "args": [encode(v) for v in made.args],
                    "kwargs": {k: encode(v) for k, v in made.kwargs.items() if k not in ("device", "dtype")},
                    "forward": forward
                    and {
                        "args": [encode(v) for v in forward.args],
                        "kwargs": {k: encode(v) for k, v in forward.kwargs.items()},
                    },
                }

            yield name, e, case


def optimizer_cases(torch, dtypes):
    from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

    for info in optim_db:
        for e in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):

            def case(e=e):
                encode, given = Encoder(torch, dtypes), e.optimizer_error_input
                params = [torch.nn.Parameter(torch.ones(1, 1))] if given.params is None else given.params
                return {
                    "args": [encode(params)],
                    "kwargs": {k: encode(v) for k, v in given.kwargs.items()},
                    "step": 3 if e.error_on == OptimizerErrorEnum.STEP_ERROR else 0,
                }

            yield "optim." + info.optim_cls.__name__, e, case


def collect(torch, strata):
    """All cases that can be serialized and that PyTorch rejects in that form; the reasons why others are skipped."""
    dtypes = {str(v).split(".")[1] for v in vars(strata).values() if isinstance(v, type(strata.float32))}
    cases, uncounted = [], collections.Counter()
    for source in (op_cases, module_cases, optimizer_cases):
        for name, e, make in source(torch, dtypes):
            try:
                case = {"op": name, "error": names(e.error_type), **make()}
            except Unsupported as reason:
                uncounted[f"arguments: {reason}"] += 1
                continue
            if error_cases.outcome(torch, case) != "refused":
                uncounted["PyTorch needs more than the arguments to refuse it"] += 1
                print(f"not refused by PyTorch: {error_cases.label(case)}: {error_cases.outcome(torch, case)}")
                continue
            cases.append(case)
    return cases, uncounted


def guarded_outcome(strata, case):
    """The outcome in a child process, so that a crash costs one case."""
    sys.stdout.flush()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writable, error_cases.outcome(strata, case).encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"died with signal {status & 127}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew tests/python/error_inputs.json")
    parser.add_argument("--path", default=str(ROOT / "build/release/python"), help="where the Python package is")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    sys.path.insert(0, options.path)
    import strata

    cases, uncounted = collect(torch, strata)
    results = [(case, guarded_outcome(strata, case)) for case in cases]
    missing = collections.Counter(case["op"] for case, result in results if result == "missing")
    counted = [(case, result) for case, result in results if result != "missing"]
    for case, result in counted:
        if result != "refused":
            print(f"{error_cases.label(case)}: expected {' or '.join(case['error'])}, {result}")
    refused = [case for case, result in counted if result == "refused"]
    for reason, n in uncounted.most_common():
        print(f"not counted: {n} x {reason}")
    print(f"not in Strata: {sum(missing.values())} of {', '.join(sorted(missing))}")
    accepted = sum(result == "accepted" for _, result in counted)
    print(
        f"{len(refused)} of {len(counted)} refused with PyTorch's exception type ({100 * len(refused) / len(counted):.1f}%), "
        f"{len(counted) - len(refused) - accepted} with another, {accepted} accepted"
    )
    if options.write:
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in refused)
        error_cases.FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
