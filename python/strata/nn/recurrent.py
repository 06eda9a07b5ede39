"""Recurrent networks: RNN, LSTM and GRU over sequences, and their cells."""

import math
import warnings

from .. import _C
from .._autocast_state import is_any_autocast_enabled
from . import init
from ._layer_count import check_layers
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence

_op = _C.ops
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_OPS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


class RNNBase(Module):
    """Shared parts of RNN, LSTM and GRU."""

    def __init__(
        self,
        mode,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        for name, value, kind in (
            ("bias", bias, bool),
            ("batch_first", batch_first, bool),
            ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        if input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        check_layers(num_layers, mode)
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if proj_size and mode != "LSTM":
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        directions = 2 if bidirectional else 1
        self._flat_weights_names = []
        for layer in range(num_layers):
            for direction in range(directions):
                tail = f"_l{layer}" + ("_reverse" if direction else "")
                shapes = {"weight_ih": (rows, input_size if layer == 0 else out * directions), "weight_hh": (rows, out)}
                if bias:
                    shapes["bias_ih"] = shapes["bias_hh"] = (rows,)
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    tensor = _op["empty"](shape, device=device, dtype=dtype)
                    self.register_parameter(name + tail, Parameter(tensor))
                    self._flat_weights_names.append(name + tail)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values: uniform within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self):  # not a property: Python would hide which weight is missing
        return [self._parameters[name] for name in self._flat_weights_names]

    @property
    def _flat_weights(self):
        return self._weights()

    @property
    def all_weights(self):
        """The parameters by layer and direction."""
        per = len(self._flat_weights_names) // (self.num_layers * (2 if self.bidirectional else 1))
        flat = self._weights()
        return [flat[i : i + per] for i in range(0, len(flat), per)]

    def flatten_parameters(self):
        """Does nothing: the weights are used directly."""

    def _start(self, input, batch, width):
        rows = self.num_layers * (2 if self.bidirectional else 1)
        return _op["zeros"]((rows, batch, width), dtype=input.dtype, device=input.device)

    def _check_hidden(self, hx, batch, width, what="hidden"):
        expected = (self.num_layers * (2 if self.bidirectional else 1), batch, width)
        if tuple(hx.shape) != expected:
            raise RuntimeError(f"Expected {what} size {expected}, got {list(hx.shape)}")

    def _widths(self):
        return (self.proj_size or self.hidden_size, self.hidden_size) if self.mode == "LSTM" else (self.hidden_size,)

    def forward(self, input, hx=None):
        """input is [steps, batch, features] ([batch, steps, features] with batch_first), without a batch, or packed."""
        packed, lone = isinstance(input, PackedSequence), False
        if packed:
            data, sizes, order, back = input
            batch = int(sizes[0])
        else:
            if input.dim() not in (2, 3):
                raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead")
            lone = input.dim() == 2
            data = input.unsqueeze(0 if self.batch_first else 1) if lone else input
            batch, order, back = data.shape[0 if self.batch_first else 1], None, None
        weights = self._weights()[0].dtype
        if data.dtype is not weights and not is_any_autocast_enabled():
            raise ValueError(
                f"RNN input dtype ({data.dtype}) does not match weight dtype ({weights}). "
                f"Convert input: input.to({weights}), or convert model: model.to({data.dtype})"
            )
        if data.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.shape[-1]}"
            )
        states = hx if self.mode == "LSTM" else None if hx is None else (hx,)
        if states is None:
            states = [self._start(data, batch, width) for width in self._widths()]
        else:
            if len(states) != len(self._widths()) or not all(isinstance(s, _C.Tensor) for s in states):
                raise TypeError(
                    f"{self._get_name()}: the state must be {'(h, c)' if self.mode == 'LSTM' else 'a tensor'}"
                )
            if any(s.dim() != (2 if lone else 3) for s in states):
                kind = "unbatched 2-D" if lone else "batched 3-D"
                raise RuntimeError(f"For {kind} input, hx should also be {'2' if lone else '3'}-D")
            states = [s.unsqueeze(1) if lone else s for s in states]
            states = states if order is None else [s.index_select(1, order) for s in states]
        for state, width, what in zip(states, self._widths(), ("hidden[0]", "hidden[1]"), strict=False):
            self._check_hidden(state, batch, width, what)
        output, *ends = self._run(data, sizes if packed else None, states)
        if packed:
            output = PackedSequence(output, sizes, order, back)
            ends = ends if back is None else [e.index_select(1, back) for e in ends]
        elif lone:
            output, ends = output.squeeze(0 if self.batch_first else 1), [e.squeeze(1) for e in ends]
        return output, tuple(ends) if self.mode == "LSTM" else ends[0]

    def _run(self, data, sizes, states):
        name = "_lstm_projected" if self.proj_size else _OPS[self.mode]
        common = (self._weights(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        hidden = list(states) if self.mode == "LSTM" else states[0]
        if sizes is not None:
            return _op[name](data, sizes, hidden, *common)
        return _op[name](data, hidden, *common, self.batch_first)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """h' = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh), or relu, over a sequence."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", *args, **kwargs):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """LSTM over a sequence: forward(input, (h, c)) returns output, (h, c)."""

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit over a sequence."""

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent network."""

    gates, op = 1, ""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size

        def made(*shape):
            return Parameter(_op["empty"](shape, device=device, dtype=dtype))

        self.weight_ih, self.weight_hh = made(rows, input_size), made(rows, hidden_size)
        self.register_parameter("bias_ih", made(rows) if bias else None)
        self.register_parameter("bias_hh", made(rows) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values: uniform within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _states(self, input, hx, count):
        name = self._get_name()
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hx is None:
            shape = (*input.shape[:-1], self.hidden_size)
            return [_op["zeros"](shape, dtype=input.dtype, device=input.device)] * count
        states = list(hx) if count > 1 else [hx]
        for state in states:
            if state.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {state.dim()}D instead")
        return states

    def _weights(self):
        p = self._parameters
        return p["weight_ih"], p["weight_hh"], p["bias_ih"], p["bias_hh"]

    def forward(self, input, hx=None):
        return _op[self.op](input, *self._states(input, hx, 1), *self._weights())

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")


class RNNCell(RNNCellBase):
    """One step of RNN."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity, self.op = nonlinearity, f"rnn_{nonlinearity}_cell"

    def extra_repr(self):
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class GRUCell(RNNCellBase):
    """One step of GRU."""

    gates, op = 3, "gru_cell"


class LSTMCell(RNNCellBase):
    """One step of LSTM: forward(input, (h, c)) returns (h, c)."""

    gates, op = 4, "lstm_cell"

    def forward(self, input, hx=None):
        return _op[self.op](input, self._states(input, hx, 2), *self._weights())
