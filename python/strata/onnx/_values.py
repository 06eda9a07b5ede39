"""Values at the border of a network: from NumPy arrays and Python objects, and back."""

from .. import _C

# ONNX's numbers of element types, and their names as onnxruntime and NumPy write them.
NAMES = {
    1: "float",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "double",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
    27: "float6e2m3",
    28: "float6e3m2",
}
STRING = 8
# Arrays of ml_dtypes: those whose bits a tensor has, and those whose values another one carries.
_SAME_BITS = {"bfloat16": _C.bfloat16, "float8_e4m3fn": _C.float8_e4m3fn, "float8_e5m2": _C.float8_e5m2}
_CARRIED = {
    "float8_e4m3fnuz": (18, "float32"),
    "float8_e5m2fnuz": (20, "float32"),
    "uint4": (21, "uint8"),
    "int4": (22, "int8"),
    "float4_e2m1fn": (23, "float32"),
    "float8_e8m0fnu": (24, "float32"),
    "uint2": (25, "uint8"),
    "int2": (26, "int8"),
    "float6_e2m3fn": (27, "float32"),
    "float6_e3m2fn": (28, "float32"),
}


def _texts(shape, items):
    return (STRING, tuple(shape), [t if isinstance(t, str) else t.decode() for t in items])


def to_value(value, device):
    """What _C._onnx_run takes: a tensor on the device, a list, None, texts, or a pair of element type and tensor."""
    if value is None or isinstance(value, tuple):
        return value
    if isinstance(value, _C.Tensor):
        return value if value.device == device else value.to(device)
    if isinstance(value, str):
        return _texts((), [value])
    if isinstance(value, list):
        if value and all(isinstance(v, str) for v in value):
            return _texts((len(value),), value)
        if value and all(isinstance(v, bool | int | float) for v in value):
            return _C.tensor(value).to(device)
        return [to_value(v, device) for v in value]
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return _C.tensor(value).to(device)
    if dtype.kind in "OSUT":
        return _texts(value.shape, value.ravel().tolist())
    if dtype.name in _SAME_BITS:
        bits = value.view("uint16" if dtype.itemsize == 2 else "uint8").copy()
        return _C.from_numpy(bits).view(_SAME_BITS[dtype.name]).to(device)
    if dtype.name in _CARRIED:
        number, carrier = _CARRIED[dtype.name]
        return (number, _C.from_numpy(value.astype(carrier)).to(device))
    if any(stride < 0 for stride in value.strides):
        value = value.copy()
    return _C.tensor(value).to(device)


def to_numpy(value):
    """A value as onnxruntime returns it: arrays, arrays of objects for texts, lists for sequences."""
    if value is None:
        return None
    if isinstance(value, list):
        return [to_numpy(v) for v in value]
    if isinstance(value, tuple) and len(value) == 3:
        import numpy

        return numpy.array(value[2], dtype=object).reshape(value[1])
    tensor = value[1] if isinstance(value, tuple) else value
    tensor = tensor.detach().cpu()
    if tensor.dtype in (_C.bfloat16, _C.float8_e4m3fn, _C.float8_e5m2):
        tensor = tensor.float()
    return tensor.numpy()
