"""The dtypes of quantized weights, as names: tensors have int8."""

from ... import _C

float16 = _C.float16


class QuantizedType:
    """The name of a quantized dtype of PyTorch."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"{str(_C.float32).partition('.')[0]}.{self._name}"

    def __reduce__(self):
        return _named, (self._name,)


def _named(name):
    return globals()[name]


qint8, quint8, quint4x2 = QuantizedType("qint8"), QuantizedType("quint8"), QuantizedType("quint4x2")
