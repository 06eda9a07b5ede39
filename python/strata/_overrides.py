"""Turning the handlers of __torch_function__ off; torch.overrides has the rest."""

from . import _C


class _Handlers:
    """A with block in which this thread's calls skip some handlers."""

    _level = 0

    def __enter__(self):
        self._before = _C._set_override_handlers(self._level)
        return self

    def __exit__(self, *_):
        _C._set_override_handlers(self._before)


class DisableTorchFunctionSubclass(_Handlers):
    """In the with block, no argument's __torch_function__ is called; modes are."""

    _level = 1


class DisableTorchFunction(_Handlers):
    """In the with block, neither an argument's __torch_function__ nor a mode's is called."""

    _level = 2


_C.DisableTorchFunctionSubclass, _C.DisableTorchFunction = DisableTorchFunctionSubclass, DisableTorchFunction
