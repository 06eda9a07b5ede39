"""The calls whose result dtypes under autocast are compared with PyTorch's. Shared by a test and tools/autocast_dtypes.py."""

import contextlib
import warnings

import strata
from strata import _C

CASES = [
    ("cpu", "float32"),
    ("cpu", "bfloat16"),
    ("cuda", "float32"),
    ("cuda", "float16"),
]  # device type, dtype of inputs
LOWER = {"cpu": "bfloat16", "cuda": "float16"}


def label(record):
    return record["name"] + ("." + record["overload"] if record["overload"] else "")


def records():
    """Public records without random results, by label."""
    return {label(r): r for r in _C._records() if not r["internal"] and not r["random"] and "nn.init" not in r["name"]}


def samples(record, dtype):
    """The texts of the samples that have floating inputs, and fresh arguments of each."""
    for text in record["samples"]:
        try:
            yield text, _C._sample(record["index"], text, getattr(strata, dtype), 0)
        except (RuntimeError, TypeError, ValueError):  # the op does not take this dtype
            continue


def dtypes_of(result, tensor_type):
    """The dtypes of the tensors of a result, by name and joined."""
    if isinstance(result, tensor_type):
        return str(result.dtype).rsplit(".", 1)[-1]
    if isinstance(result, (tuple, list)):
        return ",".join(d for d in (dtypes_of(r, tensor_type) for r in result) if d)
    return ""


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
