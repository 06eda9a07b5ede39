"""Gradient modes, as context managers and decorators."""

import functools

from .. import _C


class _Mode:
    """Sets a switch in a with block or, as a decorator, around each call. A base for the modes below."""

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)

        return wrapped

    def _again(self):
        return type(self)()


class no_grad(_Mode):
    """Ops are not recorded. `@no_grad()` and `@no_grad` both work."""

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        return mode if function is None else mode(function)

    def __enter__(self):
        self.before = _C._set_grad_enabled(False)

    def __exit__(self, *_):
        _C._set_grad_enabled(self.before)


class enable_grad(_Mode):
    """Ops are recorded, also inside no_grad()."""

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        return mode if function is None else mode(function)

    def __enter__(self):
        self.before = _C._set_grad_enabled(True)

    def __exit__(self, *_):
        _C._set_grad_enabled(self.before)


class set_grad_enabled(_Mode):
    """Recording on or off: at once when called, and back at the end when used as a with block."""

    def __init__(self, mode):
        self.mode = bool(mode)
        self.before = _C._set_grad_enabled(self.mode)

    def __call__(self, function):
        _C._set_grad_enabled(self.before)
        return super().__call__(function)

    def _again(self):
        return set_grad_enabled(self.mode)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        _C._set_grad_enabled(self.before)


class inference_mode(_Mode):
    """Like no_grad(), and the results can never be recorded."""

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        if callable(mode):
            return self(mode)
        self.mode = bool(mode)
        return self

    mode = True

    def _again(self):
        return inference_mode(self.mode)

    def __enter__(self):
        self.before = _C._set_grad_enabled(not self.mode and _C.is_grad_enabled()), _C._set_inference_mode(self.mode)

    def __exit__(self, *_):
        _C._set_grad_enabled(self.before[0])
        _C._set_inference_mode(self.before[1])


class detect_anomaly(_Mode):
    """The first op that produces a NaN, forward or backward, raises an error with its name and the calling line."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan

    def _again(self):
        return detect_anomaly(self.check_nan)

    def __enter__(self):
        self.before = _C._set_anomaly_enabled(self.check_nan)

    def __exit__(self, *_):
        _C._set_anomaly_enabled(self.before)


class set_detect_anomaly(detect_anomaly):
    """detect_anomaly() on or off, at once when called."""

    def __init__(self, mode, check_nan=True):
        super().__init__(check_nan)
        self.before = _C._set_anomaly_enabled(bool(mode) and check_nan)

    def __enter__(self):
        pass
