"""Inference engines: a model or module for given sizes of inputs, with everything decided that can be decided before a run.

>>> net = strata.nn.Sequential(strata.nn.Linear(4, 8), strata.nn.ReLU()).eval()
>>> fast = strata.engine.compile(net, inputs=[strata.engine.Input((2, 4))])
>>> fast(strata.ones(2, 4)).shape
strata.Size([2, 8])

build() makes an engine of an .onnx file, compile() of a module, load() of a plan that save() has written.
"""

from ._build import Input, build, compile, load
from ._engine import Engine, ExecutionContext, Port
from ._quantize import Calibration, calibrate, quantize

__all__ = [
    "Calibration",
    "Engine",
    "ExecutionContext",
    "Input",
    "Port",
    "build",
    "calibrate",
    "compile",
    "load",
    "quantize",
]
