"""Writes tests/python/autocast_dtypes.json: the dtypes of PyTorch's results under autocast, for the samples of all records.

usage: autocast_dtypes.py [--path PACKAGE_FOLDER]

Needs PyTorch 2.15. Results for CUDA come from fake tensors, so no GPU is needed. Only calls whose results change under
autocast are kept; the test expects of all others that they do not change.
"""

import argparse
import functools
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/python/autocast_dtypes.json"
SKIPPED = "skipped"  # PyTorch has no such function, or does not take these arguments


def torch_function(torch, name):
    try:
        return functools.reduce(getattr, name.split("."), torch)
    except AttributeError:
        return None


def converted(torch, value, device):
    """A Strata argument as PyTorch's."""
    import strata

    if isinstance(value, strata.Tensor):
        dtype = getattr(torch, str(value.dtype).rsplit(".", 1)[-1])
        values = torch.tensor(value.double().tolist() if value.is_floating_point() else value.tolist())
        return values.reshape(tuple(value.shape)).to(dtype).to(device)
    if isinstance(value, strata.dtype):
        return getattr(torch, str(value).rsplit(".", 1)[-1])
    if isinstance(value, (list, tuple)):
        return type(value)(converted(torch, v, device) for v in value)
    return value


def outcome(torch, function, arguments, device, enabled, lower):
    """The dtypes of the result, "error" if PyTorch rejects the call."""
    import autocast_cases

    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, lower)
    try:
        return autocast_cases.dtypes_of(function(**arguments), torch.Tensor)
    except TypeError:
        return SKIPPED
    except Exception:  # noqa: BLE001: whatever PyTorch raises
        return "error"
    finally:
        torch.set_autocast_enabled(device, False)


def ask(torch, record, device, dtype):
    """{text: dtypes under autocast} of the samples whose result changes."""
    import autocast_cases
    from torch._subclasses.fake_tensor import FakeTensorMode

    function = torch_function(torch, record["name"])
    answers = {}
    lower = getattr(torch, autocast_cases.LOWER[device])
    for text, arguments in autocast_cases.samples(record, dtype) if function else ():
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with mode if device == "cuda" else autocast_cases.quiet():
            given = {name: converted(torch, value, device) for name, value in arguments.items()}
            plain = outcome(torch, function, given, device, False, lower)
            cast = outcome(torch, function, given, device, True, lower)
        if cast == SKIPPED or (plain == "error" and cast == "error"):
            answers[text] = SKIPPED
        elif cast != plain:
            answers[text] = cast
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default=str(ROOT / "build/release/python"), help="folder of the package strata")
    sys.path[:0] = [parser.parse_args().path, str(ROOT / "tests/python")]
    import autocast_cases
    import torch

    found = {}
    with autocast_cases.quiet():
        for name, record in autocast_cases.records().items():
            for device, dtype in autocast_cases.CASES:
                answers = ask(torch, record, device, dtype)
                if answers:
                    found.setdefault(name, {})[f"{device} {dtype}"] = answers
    found["missing"] = [n for n, r in autocast_cases.records().items() if not torch_function(torch, r["name"])]
    lines = (f"{json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in sorted(found))
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(
        f"{len(found) - 1} records change under autocast; {len(found['missing'])} are not in PyTorch {torch.__version__}"
    )


if __name__ == "__main__":
    main()
