"""Layers whose weights are int8 with a scale per row, or float16. Inputs, sums and results stay floats: unlike PyTorch's, these
layers do not round their inputs to 8 bits."""

import copy

from ..... import _C, func, nn
from ..._types import float16, qint8

ops = _C.ops
__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "Linear", "RNNCell"]
_KINDS = (qint8, float16)


def _check_dtype(name, dtype):
    if dtype not in _KINDS:
        raise NotImplementedError(f"{name}: weights of dtype qint8 and float16 are available, found {dtype}")


class _Weights(nn.Module):
    """Matrices by name as buffers: int8 with scales, or float16."""

    def _keep(self, name, weight):
        weight = weight.detach()
        names = self.__dict__.setdefault("_rounded", [])
        if name not in names:
            names.append(name)
        if self.dtype is float16:
            self.register_buffer(f"_{name}", weight.to(float16))
            return
        rounded, scales = ops["quantize_int8"](weight)
        self.register_buffer(f"_{name}", rounded)
        self.register_buffer(f"_{name}_scales", scales)

    def _values(self, name):
        """The matrix in floats."""
        kept = self._buffers[f"_{name}"]
        if self.dtype is float16:
            others = (b.dtype for b in self._buffers.values() if b is not None and b.dtype is not float16)
            return kept.to(next(others, _C.float32))
        scales = self._buffers[f"_{name}_scales"]
        return kept.to(scales.dtype) * scales.unsqueeze(1)

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def _apply(self, fn, *args, **kwargs):
        kept = dict(self._buffers)
        super()._apply(fn, *args, **kwargs)
        for name in self._rounded if self.dtype is float16 else ():  # moved, but not converted
            self._buffers[f"_{name}"] = kept[f"_{name}"].to(self._buffers[f"_{name}"].device)
        return self


class Linear(_Weights):
    """linear() with an int8 or float16 weight; from_float() makes one of an nn.Linear."""

    def __init__(self, in_features, out_features, bias_=True, dtype=qint8):
        super().__init__()
        _check_dtype("Linear", dtype)
        self.in_features, self.out_features, self.dtype = in_features, out_features, dtype
        zeros = ops["zeros"]([out_features, in_features])
        self.set_weight_bias(zeros, ops["zeros"]([out_features]) if bias_ else None)

    @classmethod
    def from_float(cls, mod, dtype=qint8):
        """The layer with the rounded weight of an nn.Linear."""
        if not isinstance(mod, nn.Linear):
            raise TypeError(f"{cls.__name__}.from_float: expected a Linear, found {type(mod).__name__}")
        made = cls(mod.in_features, mod.out_features, mod.bias is not None, dtype).to(mod.weight.device)
        made.set_weight_bias(mod.weight, mod.bias)
        return made

    def set_weight_bias(self, weight, bias):
        """Rounds a weight [out_features, in_features] and keeps it."""
        self._keep("weight", weight)
        self.register_buffer("_bias", None if bias is None else bias.detach().clone())

    def weight(self):
        """The rounded weight, in floats."""
        return self._values("weight")

    def bias(self):
        """The bias, None without one."""
        return self._bias

    def forward(self, input):
        if self.dtype is float16:
            return nn.functional.linear(input, self._weight.to(input.dtype), self._bias)
        bias = self._bias if self._bias is None else self._bias.to(input.dtype)
        return ops["nn.functional.linear_int8"](input, self._weight, self._weight_scales, bias)

    def extra_repr(self):
        scheme = "" if self.dtype is float16 else ", qscheme=per_channel_symmetric"
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={self.dtype}{scheme}"


class _Recurrent(_Weights):
    """A recurrent layer or cell with rounded weights, which every call converts to floats."""

    _plain_type = None

    def __init__(self, *args, dtype=qint8, **kwargs):
        super().__init__()
        _check_dtype(type(self).__name__, dtype)
        self.dtype = dtype
        self._take(self._plain_type(*args, **kwargs))

    @classmethod
    def from_float(cls, mod, dtype=qint8):
        """The layer with the rounded weights of the float one."""
        if not isinstance(mod, cls._plain_type):
            raise TypeError(
                f"{cls.__name__}.from_float: expected {cls._plain_type.__name__}, found {type(mod).__name__}"
            )
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        _check_dtype(cls.__name__, dtype)
        made.dtype = dtype
        made._take(mod)
        return made

    def _take(self, mod):
        self._vectors = []
        for name, value in mod.named_parameters():
            if value.dim() == 2:
                self._keep(name, value)
            else:
                self._vectors.append(name)
                self.register_buffer(name, value.detach().clone())
        # The formula, whose parameters are given at each call. No submodule: its state is not this layer's.
        self.__dict__["_plain"] = plain = copy.deepcopy(mod).eval()
        for name in plain._parameters:
            plain._parameters[name] = nn.Parameter(ops["empty"]([0]), requires_grad=False)
        for name in "input_size hidden_size num_layers batch_first bidirectional proj_size mode".split():
            if hasattr(mod, name):
                self.__dict__[name] = getattr(mod, name)

    def get_weight(self):
        """The rounded matrices by name, in floats."""
        return {name: self._values(name) for name in self._rounded}

    def get_bias(self):
        """The biases by name."""
        return {name: self._buffers[name] for name in self._vectors}

    def forward(self, *args, **kwargs):
        return func.functional_call(self._plain, {**self.get_weight(), **self.get_bias()}, args, kwargs)

    def extra_repr(self):
        return self._plain.extra_repr()


def _made(plain):
    members = {"_plain_type": plain, "__module__": __name__, "__doc__": f"nn.{plain.__name__} with rounded weights."}
    return type(plain.__name__, (_Recurrent,), members)


LSTM, GRU, LSTMCell, GRUCell, RNNCell = map(_made, (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell))
