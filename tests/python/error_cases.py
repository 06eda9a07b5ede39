"""Calls that PyTorch rejects, as data: error_inputs.json holds the op, the arguments and the exception type of each.

tools/error_inputs.py writes the file where PyTorch is installed; test_error_inputs.py replays it without. `module` is strata here
and torch in the tool, so that the same code rebuilds a call for both.
"""

import functools
import json
import pathlib

FILE = pathlib.Path(__file__).with_name("error_inputs.json")


class Missing(Exception):
    """The module has no function of this name."""


def load():
    return json.loads(FILE.read_text())


def label(case):
    return f"{case['op']}: {describe(case['args'])}{describe(case['kwargs'])}"


def describe(value):
    """A short text of encoded arguments."""
    if isinstance(value, list):
        return "(" + ", ".join(map(describe, value)) + ")"
    if isinstance(value, dict) and "tensor" in value:
        return f"{value['dtype']}{value['tensor']}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={describe(v)}" for k, v in value.items()) + "}"
    return str(value)


class Decoder:
    """Rebuilds arguments. Tensors that shared memory share it again."""

    def __init__(self, module):
        self.module, self.storages, self.tensors = module, {}, {}

    def __call__(self, value):
        if isinstance(value, list):
            return [self(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return self.tensor(value)
        if "tuple" in value:
            return tuple(self(v) for v in value["tuple"])
        if "set" in value:
            return {self(v) for v in value["set"]}
        if "dict" in value:
            return {k: self(v) for k, v in value["dict"].items()}
        if "float" in value:
            return float(value["float"])
        if "dtype" in value:
            return getattr(self.module, value["dtype"])
        raise ValueError(f"unknown value {value}")

    def tensor(self, value):
        key = value["object"]
        if key not in self.tensors:
            t = self.storage(value).as_strided(value["tensor"], value["strides"], value.get("offset", 0))
            self.tensors[key] = t.detach().requires_grad_() if value.get("requires_grad") else t
        return self.tensors[key]

    def storage(self, value):
        key, values = value["storage"], value["values"]
        if key not in self.storages:
            dtype = getattr(self.module, value["dtype"])
            if isinstance(values, dict):  # many floats whose values do not matter
                flat = (self.module.arange(values["count"]) % 7 + 1).to(dtype)
            else:
                flat = self.module.tensor([float(v) if isinstance(v, str) else v for v in values]).to(dtype)
            self.storages[key] = flat
        return self.storages[key]


def resolve(module, name):
    """The function, or the method of Tensor, called `name`; one that draws numbers in place has a '_' behind it."""
    for root in (module, module.Tensor):
        for path in (name, name + "_"):
            try:
                return functools.reduce(getattr, path.split("."), root)
            except AttributeError:
                continue
    raise Missing(name)


def run(module, case):
    """Makes the call. Raises what it raises, Missing when there is no such function."""
    function, decode = resolve(module, case["op"]), Decoder(module)
    args, kwargs = [decode(v) for v in case["args"]], {k: decode(v) for k, v in case["kwargs"].items()}
    if "step" in case:  # an optimizer, rejected in its constructor or in a step
        optimizer = function(*args, **kwargs)
        return [optimizer.step() for _ in range(case["step"])]
    if "forward" not in case:
        return function(*args, **kwargs)
    inputs = case["forward"]  # of a module; none: its constructor raises
    made = function(*args, **kwargs)
    return made(*decode(inputs["args"]), **{k: decode(v) for k, v in inputs["kwargs"].items()}) if inputs else made


def outcome(module, case):
    """'accepted', 'missing', 'refused', or the name of another exception's type with its text."""
    expected = {
        "RuntimeError": RuntimeError,
        "TypeError": TypeError,
        "ValueError": ValueError,
        "IndexError": IndexError,
    }
    try:
        run(module, case)
    except Missing:
        return "missing"
    except Exception as e:
        wanted = tuple(expected.get(name, Exception) for name in case["error"])
        return "refused" if isinstance(e, wanted) else f"{type(e).__name__}: {str(e).splitlines()[0][:160]}"
    return "accepted"
