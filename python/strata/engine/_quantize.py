"""Int8: how large the values of a network are on real inputs, and models with conversions to bytes."""

import os
from pathlib import Path

from .. import _C
from ..serialization import load
from ._build import build
from ._engine import Engine

_TITLE = "strata calibration 1"


class Calibration:
    """The table that build(..., int8=True, calibration=...) needs: the largest element of each value, the one that becomes 127, the
    error of each layer in int8, and the layers that stay in float32.

    >>> table = strata.engine.Calibration("strata calibration 1\\nmethod entropy\\nsamples 2\\nvalue 3.5 2.54 x\\n")
    >>> table.values["x"]
    (3.5, 2.54)
    """

    def __init__(self, text):
        self.text = text
        lines = [line for line in text.splitlines()[1:] if line and not line.startswith("#")]
        if not text.startswith(_TITLE + "\n"):
            raise ValueError(f"Calibration: expected a text that begins with {_TITLE!r}")
        rows = [line.split(" ", 1) for line in lines]
        facts = {kind: rest for kind, rest in rows if kind in ("method", "samples")}
        self.method, self.samples = facts.get("method", ""), int(float(facts.get("samples", 0)))
        values = [rest.split(" ", 2) for kind, rest in rows if kind == "value"]
        self.values = {name: (float(largest), float(threshold)) for largest, threshold, name in values}
        layers = [rest.split(" ", 1) for kind, rest in rows if kind == "layer"]
        self.errors = {name: float(error) for error, name in layers}
        self.floats = [rest for kind, rest in rows if kind == "float"]

    @classmethod
    def load(cls, path):
        """A table that save() has written."""
        return cls(Path(path).read_text())

    def save(self, path):
        """Writes the text, which can be read and changed."""
        Path(path).write_text(self.text)

    def __str__(self):
        return self.text

    def __repr__(self):
        return (
            f"Calibration({self.method}, {self.samples} samples, {len(self.values)} values, {len(self.errors)} layers, "
            f"{len(self.floats)} in float32)"
        )


def _engine_of(model, device):
    return model if isinstance(model, Engine) else build(model, device=device, level=0)


def _files(folder):
    """The inputs of a folder: a .npy file holds one, a .safetensors file all of one run by name."""
    paths = sorted(p for p in Path(folder).iterdir() if p.suffix in (".npy", ".safetensors"))
    if not paths:
        raise ValueError(f"calibrate: the folder {str(folder)!r} has no .npy and no .safetensors files")
    for path in paths:
        if path.suffix == ".npy":
            import numpy as np

            yield np.load(path, allow_pickle=False)
        else:
            yield load(path)


def _rows(engine, data):
    for inputs in _files(data) if isinstance(data, (str, os.PathLike)) else data:
        given = (inputs,) if isinstance(inputs, _C.Tensor) or hasattr(inputs, "__array__") else inputs
        yield engine._values(given)


def calibrate(model, data, *, method="entropy", percentile=99.99, max_error=0.0, device="cpu"):
    """Runs a model (a path, its bytes, or an Engine in float32) on inputs, and returns a Calibration for int8.

    `data` is an iterable of inputs (dicts, tuples, or single tensors), or a folder of .npy or .safetensors files. `method` is "entropy", "min-max" or "percentile".
    `max_error` is the largest error of an output, relative to its size: the layers with the largest errors stay in float32 until
    it is met.
    """
    engine = _engine_of(model, device)
    rows = _rows(engine, data)
    network = _C._engine_network_of(engine._engine)
    return Calibration(
        _C._engine_calibrate(network, lambda: next(rows, None), method, float(percentile), float(max_error))
    )


def quantize(model, path, data, *, calibration=None, method="entropy", percentile=99.99, max_error=0.0, device="cpu"):
    """Writes the model with QuantizeLinear and DequantizeLinear around its layers and int8 weights, for other programs.

    It is for the sizes of the first of the inputs in `data`, with which it is calibrated unless `calibration` is given. Returns
    the Calibration.
    """
    engine = _engine_of(model, device)
    data = list(data)
    if not data:
        raise ValueError("quantize: data is empty; give at least one input")
    if calibration is None:
        calibration = calibrate(engine, data, method=method, percentile=percentile, max_error=max_error)
    network = _C._engine_network_of(engine._engine)
    _C._engine_quantize(network, next(_rows(engine, data)), str(calibration), os.fspath(path))
    return calibration
