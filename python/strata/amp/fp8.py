"""Linear layers in float8 with delayed scaling: forward in e4m3, gradients in e5m2.

Each factor is multiplied by a scale before it is rounded to 8 bits. The scale comes from the largest values of recent
steps, so that no step waits for its own: `update(model)` computes it once per step.
"""

from .. import _C, nn

__all__ = ["Linear", "convert", "update"]

_BUFFERS = ("fp8_amax", "fp8_history", "fp8_scale")


class Linear(nn.Linear):
    """nn.Linear whose products are in float8; inputs, parameters and results are float32, float16 or bfloat16.

    `history_length` is the number of steps whose largest values determine the scales, and 2**margin the room for values
    that grow. The buffers fp8_amax, fp8_history and fp8_scale are float32 whatever the dtype of the module; their columns
    are input, weight and gradient. In eval mode the scales are used, and nothing is recorded.
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None, *, history_length=16, margin=0):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self._start(history_length, margin)

    def _start(self, history_length, margin):
        if not 0 <= margin <= 16:
            raise ValueError(f"fp8: margin is {margin}; expected 0 to 16")
        self.margin = margin
        for name, value in zip(_BUFFERS, _C._fp8_state(history_length, self.weight.device), strict=True):
            self.register_buffer(name, value)

    def forward(self, input):
        amax = self.fp8_amax if self.training else None
        return _C._fp8_linear(input, self.weight, self.bias, amax, self.fp8_scale)

    def update_scales(self):
        """New scales from the largest values of this step and the last ones; call it once per step."""
        _C._fp8_update(self.fp8_amax, self.fp8_history, self.fp8_scale, self.margin)

    def _apply(self, *args, **kwargs):
        kept = {name: self._buffers[name] for name in _BUFFERS}
        super()._apply(*args, **kwargs)
        for name, value in kept.items():  # moved, but not converted
            if self._buffers[name].dtype != value.dtype:
                self._buffers[name] = value.to(self._buffers[name].device)
        return self

    def extra_repr(self):
        return f"{super().extra_repr()}, history_length={len(self.fp8_history)}, margin={self.margin}"


def convert(model, *, filter=None, history_length=16, margin=0):
    """Makes the nn.Linear layers of a model float8 ones, in place; returns the model.

    `filter(name, module)` chooses the layers. Parameters, hooks and names stay; subclasses of nn.Linear are left alone.
    Layers whose sizes are no multiples of 16 work, but on a GPU their products are computed in float32.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"fp8.convert: expected a Module, got {type(model).__name__}")
    for name, module in model.named_modules():
        if type(module) is nn.Linear and (filter is None or filter(name, module)):
            module.__class__ = Linear
            try:
                module._start(history_length, margin)
            except Exception:
                module.__class__ = nn.Linear
                raise
    return model


def update(model):
    """New scales for all float8 layers of a model. Call it once per step, after backward."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.update_scales()
