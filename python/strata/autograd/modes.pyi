# Types of modes.py, which checkers cannot infer: no_grad is a context manager, a decorator, and takes brackets or not.
from collections.abc import Callable
from typing import Any, TypeVar, overload

from typing_extensions import Self

_F = TypeVar("_F", bound=Callable[..., Any])

class _Mode:
    def __call__(self, function: _F) -> _F: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

class no_grad(_Mode):
    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: _F) -> _F: ...  # type: ignore[misc]

class enable_grad(_Mode):
    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: _F) -> _F: ...  # type: ignore[misc]

class set_grad_enabled(_Mode):
    mode: bool
    def __init__(self, mode: bool) -> None: ...

class inference_mode(_Mode):
    mode: bool
    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: _F) -> _F: ...  # type: ignore[misc]

class detect_anomaly(_Mode):
    check_nan: bool
    def __init__(self, check_nan: bool = True) -> None: ...

class set_detect_anomaly(detect_anomaly):
    def __init__(self, mode: bool, check_nan: bool = True) -> None: ...
