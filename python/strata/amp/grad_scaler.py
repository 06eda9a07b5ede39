"""GradScaler: keeps the gradients of a float16 forward pass in range by scaling the loss."""

import enum
import warnings

from .. import _C

__all__ = ["GradScaler"]


class OptState(enum.Enum):
    """What has been done with the gradients of an optimizer since the last update()."""

    READY, UNSCALED, STEPPED = range(3)


_READY, _UNSCALED, _STEPPED = OptState
_NO_SCALE = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class _Progress:
    """What has happened to one optimizer since the last update()."""

    def __init__(self):
        self.stage = _READY
        self.found_inf = {}  # by device: a tensor that is 0 if all gradients are finite


class GradScaler:
    """Scales the loss, unscales the gradients, skips steps with infinite gradients, and adapts the scale.

    scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        self._device = device
        self._enabled = bool(enabled)
        if enabled and device == "cuda":
            from .. import cuda

            if not cuda.is_available():
                warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2)
                self._enabled = False
        if self._enabled and growth_factor <= 1:
            raise AssertionError("The growth factor must be > 1.0.")
        if self._enabled and backoff_factor >= 1:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale = self._growth_tracker = None  # tensors, on the device of the first loss
        self._progress = {}  # by id of the optimizer

    def scale(self, outputs):
        """The outputs, a tensor or nested lists and tuples of tensors, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            if self._scale is None:
                full = _C.ops["full"]
                self._scale = full((), self._init_scale, dtype=_C.float32, device=outputs.device)
                self._growth_tracker = full((), self._init_growth_tracker, dtype=_C.int32, device=outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(o) for o in outputs)
        try:
            items = iter(outputs)
        except TypeError:
            raise ValueError("outputs must be a Tensor or an iterable of Tensors") from None
        return map(self.scale, items)

    def _check_scale(self, function):
        if self._scale is None:
            raise AssertionError(f"Attempted {function} but _scale is None.  {_NO_SCALE}")

    def _progress_of(self, optimizer):
        return self._progress.setdefault(id(optimizer), _Progress())

    def unscale_(self, optimizer):
        """Divides the optimizer's gradients by the scale, e.g. before they are clipped. step() does it otherwise."""
        if not self._enabled:
            return
        self._check_scale("unscale_")
        progress = self._progress_of(optimizer)
        if progress.stage == _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if progress.stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        by_device = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if param.grad.dtype is _C.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grad = param.grad._values() if param.grad.is_sparse else param.grad
                by_device.setdefault(grad.device, []).append(grad.detach())
        inverse = self._scale.double().reciprocal().float()  # in double: the scale may be any power of two
        for device, grads in by_device.items():
            found = _C.ops["zeros"]((), dtype=_C.float32, device=device)
            _C.ops["_amp_foreach_non_finite_check_and_unscale_"](grads, found, inverse.to(device))
            progress.found_inf[device] = found
        progress.stage = _UNSCALED

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step(*args, **kwargs), unless a gradient is infinite or NaN; then None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or any(callable(a) for a in args):
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        progress = self._progress_of(optimizer)
        if progress.stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage == _READY:
            self.unscale_(optimizer)
        if not progress.found_inf:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(found.item() for found in progress.found_inf.values()):
            result = optimizer.step(*args, **kwargs)
        progress.stage = _STEPPED
        return result

    def update(self, new_scale=None):
        """Adapts the scale: call it once per iteration, after all steps. new_scale: a float or a tensor to use instead."""
        if not self._enabled:
            return
        self._check_scale("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [f.to(self._scale.device) for p in self._progress.values() for f in p.found_inf.values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            _C.ops["_amp_update_scale_"](
                self._scale,
                self._growth_tracker,
                sum(found[1:], start=found[0]),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._progress = {}

    def _set_scale(self, value):
        if not isinstance(value, _C.Tensor):
            self._scale.fill_(float(value))
            return
        if value.device.type != self._device or value.numel() != 1 or value.requires_grad:
            raise AssertionError(
                f"new_scale should be a float or a 1-element tensor on {self._device} with requires_grad=False."
            )
        self._scale.copy_(value.reshape(()))

    def get_scale(self):
        """The scale as a number; 1.0 if scaling is off. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def get_growth_factor(self):
        """The factor by which update() increases the scale."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Sets the factor by which update() increases the scale."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """The factor by which update() decreases the scale after a skipped step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Sets the factor by which update() decreases the scale."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """The number of steps without infinities after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Sets the number of steps without infinities after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self):
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self):
        """The state as plain numbers, with PyTorch's keys; empty if scaling is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict):
        """Loads what state_dict() returned, also one from PyTorch."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        missing = self.state_dict().keys() - state_dict.keys()
        if missing:
            raise KeyError(f"GradScaler.load_state_dict: the state has no {sorted(missing)}")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self):
        if self._progress:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        state = dict(self.__dict__)
        if self._enabled:
            state.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker())
        return state | {"_scale": None, "_growth_tracker": None}
