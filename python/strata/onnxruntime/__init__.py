"""The names of onnxruntime over strata.onnx, so that its programs run with another import.

>>> import strata.onnxruntime as onnxruntime
>>> session = onnxruntime.InferenceSession("model.onnx")           # doctest: +SKIP
>>> session.run(None, {"input": array})                            # doctest: +SKIP

`python -m strata.onnxruntime script.py` runs a program that says `import onnxruntime`.
"""

import sys as _sys

from .. import __version__ as _strata_version
from . import capi
from ._options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from ._providers import get_all_providers, get_available_providers, get_device
from ._session import InferenceSession, IOBinding, ModelMetadata, NodeArg
from ._values import OrtDevice, OrtValue

# The interface that is followed: programs compare it with the version they need.
__version__ = "1.31.1"

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "install",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]


def set_seed(seed):
    """The seed of random ops that have none of their own."""
    from .. import manual_seed

    manual_seed(seed)


def set_default_logger_severity(severity):
    """Accepted: nothing is logged; errors are raised."""


def set_default_logger_verbosity(verbosity):
    """Accepted: nothing is logged."""


def disable_telemetry_events():
    """Accepted: nothing is sent."""


def enable_telemetry_events():
    """Accepted: nothing is sent."""


def get_build_info():
    return f"strata {_strata_version}"


def install():
    """From now on `import onnxruntime` gives this module. Raises if the other one was imported before."""
    other = _sys.modules.get("onnxruntime")
    if other is not None and other is not _sys.modules[__name__]:
        raise RuntimeError("strata.onnxruntime.install: onnxruntime was imported before; call install() first")
    for name, module in list(_sys.modules.items()):
        if name == __name__ or name.startswith(__name__ + "."):
            _sys.modules["onnxruntime" + name[len(__name__) :]] = module
