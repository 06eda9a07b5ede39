"""The extension for Fourier transforms."""

from .. import _C

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_ops = _C.ops


def _along_one(name, doc):
    op = _ops["fft." + name]

    def f(x, /, *, n=None, axis=-1, norm="backward"):
        return op(x, n, axis, norm)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


def _along_many(name, doc):
    op = _ops["fft." + name]

    def f(x, /, *, s=None, axes=None, norm="backward"):
        return op(x, s, axes, norm)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


fft = _along_one("fft", "The discrete Fourier transform along an axis.")
ifft = _along_one("ifft", "The inverse of fft().")
rfft = _along_one("rfft", "The first half of the transform of real numbers; the rest is its conjugate.")
irfft = _along_one("irfft", "The inverse of rfft().")
hfft = _along_one("hfft", "The real transform of numbers of which the second half is the conjugate of the first.")
ihfft = _along_one("ihfft", "The inverse of hfft().")
fftn = _along_many("fftn", "The discrete Fourier transform along several axes.")
ifftn = _along_many("ifftn", "The inverse of fftn().")
rfftn = _along_many("rfftn", "The transform of real numbers along several axes, half of the last one.")
irfftn = _along_many("irfftn", "The inverse of rfftn().")


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the n results of fft() for samples at distance d."""
    return _ops["fft.fftfreq"](n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the results of rfft() for n samples at distance d."""
    return _ops["fft.rfftfreq"](n, d, dtype=dtype, device=device)


def fftshift(x, /, *, axes=None):
    """The results of fft() with frequency 0 in the middle."""
    return _ops["fft.fftshift"](x, axes)


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift()."""
    return _ops["fft.ifftshift"](x, axes)
