"""Windows for the spectra of signals, as torch.signal.windows: symmetric unless sym=False makes them periodic."""

import math

from ... import _C

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]
_ops = _C.ops


def _made(name, formula, M, sym, dtype, layout, device, requires_grad):
    """formula(n, N - 1) for n = 0, 1, …, M - 1; N is M, or M + 1 for a periodic window."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout not in (None, "strided"):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = dtype or _C.get_default_dtype()
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if M <= 1:
        window = _ops["ones"](M, dtype=dtype, device=device)
    else:
        n = _ops["arange"](M, dtype=_C.float64, device=device)
        window = formula(n, M - 1 if sym else M).to(dtype)
    return window.requires_grad_(requires_grad)


def _window(formula):
    """A function of M and the formula's parameters, which are named, with PyTorch's options for tensors."""

    def window(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False, **parameters):
        def values(n, m):
            return formula(n, m, **parameters)

        return _made(formula.__name__, values, M, sym, dtype, layout, device, requires_grad)

    window.__name__, window.__qualname__, window.__doc__ = formula.__name__, formula.__name__, formula.__doc__
    return window


def _cosines(n, m, a):
    return sum((-1) ** k * value * (2 * math.pi * k / m * n).cos() for k, value in enumerate(a))


@_window
def general_cosine(n, m, *, a):
    """The sum of (-1)^k a[k] cos(2 pi k n / (N - 1))."""
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _cosines(n, m, a)


@_window
def general_hamming(n, m, *, alpha=0.54):
    """alpha - (1 - alpha) cos(2 pi n / (N - 1))."""
    return _cosines(n, m, [alpha, 1 - alpha])


@_window
def hamming(n, m):
    """0.54 - 0.46 cos(2 pi n / (N - 1))."""
    return _cosines(n, m, [0.54, 0.46])


@_window
def hann(n, m):
    """0.5 - 0.5 cos(2 pi n / (N - 1))."""
    return _cosines(n, m, [0.5, 0.5])


@_window
def blackman(n, m):
    """0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1))."""
    return _cosines(n, m, [0.42, 0.5, 0.08])


@_window
def nuttall(n, m):
    """Four cosines, with the coefficients of Nuttall."""
    return _cosines(n, m, [0.3635819, 0.4891775, 0.1365995, 0.0106411])


@_window
def bartlett(n, m):
    """A triangle: 1 - |2 n / (N - 1) - 1|."""
    return 1 - (2 / m * n - 1).abs()


@_window
def cosine(n, m):
    """sin(pi (n + 0.5) / N)."""
    return (math.pi * (n + 0.5) / (m + 1)).sin()


@_window
def gaussian(n, m, *, std=1.0):
    """exp(-(n - (N - 1) / 2)^2 / (2 std^2))."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return (-(((n - m / 2) / std) ** 2) / 2).exp()


@_window
def kaiser(n, m, *, beta=12.0):
    """I0(beta sqrt(1 - (2 n / (N - 1) - 1)^2)) / I0(beta), where I0 is the modified Bessel function of order 0."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    i0 = _ops["special.i0"]
    return i0(beta * (1 - (2 / m * n - 1) ** 2).clamp(min=0).sqrt()) / i0(n.new_full((), beta))


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """exp(-|n - center| / tau); a symmetric window has its center at (N - 1) / 2."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def values(n, m):
        return (-(n - (m / 2 if center is None else center)).abs() / tau).exp()

    return _made("exponential", values, M, sym, dtype, layout, device, requires_grad)
