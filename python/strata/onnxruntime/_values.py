"""OrtValue: a tensor, a sequence or texts outside of a session."""

from .. import _C
from ..onnx import _values


class OrtDevice:
    def __init__(self, kind, index=0):
        self._kind, self._index = kind, index

    @staticmethod
    def make(name, index):
        return OrtDevice(name, index)

    def device_type(self):
        return self._kind

    def device_id(self):
        return self._index


def device_named(name, index=0):
    return _C.device(f"cuda:{index}" if name in ("cuda", "gpu") else name)


class OrtValue:
    def __init__(self, value):
        self._value = value

    @classmethod
    def ortvalue_from_numpy(cls, array, device_type="cpu", device_id=0):
        return cls(_values.to_value(array, device_named(device_type, device_id)))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type, device_type="cpu", device_id=0):
        from .. import empty

        dtype = getattr(_C, __import__("numpy").dtype(element_type).name)
        return cls(empty(list(shape), dtype=dtype, device=device_named(device_type, device_id)))

    def _tensor(self):
        if not isinstance(self._value, _C.Tensor):
            raise RuntimeError("OrtValue: the value is no tensor")
        return self._value

    def numpy(self):
        return _values.to_numpy(self._value)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def shape(self):
        return list(self._value[1]) if self.data_type() == "tensor(string)" else list(self._tensor().shape)

    def data_type(self):
        if isinstance(self._value, list):
            return "seq"
        if isinstance(self._value, tuple):
            return f"tensor({_values.NAMES[self._value[0]]})"
        return f"tensor({_values.to_numpy(self._value[:0] if self._value.dim() else self._value).dtype.name})".replace(
            "float32", "float"
        ).replace("float64", "double")

    def element_type(self):
        return next(n for n, name in _values.NAMES.items() if f"tensor({name})" == self.data_type())

    def device_name(self):
        return self._value.device.type if isinstance(self._value, _C.Tensor) else "cpu"

    def data_ptr(self):
        return self._tensor().data_ptr()

    def has_value(self):
        return self._value is not None

    def is_tensor(self):
        return isinstance(self._value, _C.Tensor)

    def is_tensor_sequence(self):
        return isinstance(self._value, list)

    def update_inplace(self, array):
        self._tensor().copy_(_values.to_value(array, "cpu"))
