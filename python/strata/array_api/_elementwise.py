"""Functions of each element. All are thin: they promote their operands and call the op."""

import builtins

from .. import _C
from ._dtypes import promoted, result_type

Tensor, ops = _C.Tensor, _C.ops


def _named(f, name, doc):
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


def _unary(name, doc, op=None):
    compute = ops[op or name]

    def f(x, /):
        return compute(x)

    return _named(f, name, doc)


def _binary(name, doc, op=None):
    compute = ops[op or name]

    def f(x1, x2, /):
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype:
            return compute(x1, x2)
        return compute(*promoted(name, x1, x2))

    return _named(f, name, doc)


abs = _unary("abs", "The absolute value.")
acos = _unary("acos", "The inverse cosine.")
acosh = _unary("acosh", "The inverse hyperbolic cosine.")
asin = _unary("asin", "The inverse sine.")
asinh = _unary("asinh", "The inverse hyperbolic sine.")
atan = _unary("atan", "The inverse tangent.")
atanh = _unary("atanh", "The inverse hyperbolic tangent.")
bitwise_invert = _unary("bitwise_invert", "All bits inverted; the logical not of booleans.", "bitwise_not")
cos = _unary("cos", "The cosine.")
cosh = _unary("cosh", "The hyperbolic cosine.")
exp = _unary("exp", "e to the power of x.")
expm1 = _unary("expm1", "exp(x) - 1, exact also near 0.")
isfinite = _unary("isfinite", "Whether an element is neither infinite nor NaN.")
isinf = _unary("isinf", "Whether an element is infinite.")
isnan = _unary("isnan", "Whether an element is NaN.")
log = _unary("log", "The natural logarithm.")
log10 = _unary("log10", "The logarithm of base 10.")
log1p = _unary("log1p", "log(1 + x), exact also near 0.")
log2 = _unary("log2", "The logarithm of base 2.")
logical_not = _unary("logical_not", "The logical not.")
negative = _unary("negative", "-x.", "neg")
reciprocal = _unary("reciprocal", "1 / x.")
signbit = _unary("signbit", "Whether the sign bit is set, also that of -0 and of NaN.")
sin = _unary("sin", "The sine.")
sinh = _unary("sinh", "The hyperbolic sine.")
sqrt = _unary("sqrt", "The square root.")
square = _unary("square", "x * x.")
tan = _unary("tan", "The tangent.")
tanh = _unary("tanh", "The hyperbolic tangent.")
ceil = _unary("ceil", "The smallest integer that is at least x.")
floor = _unary("floor", "The largest integer that is at most x.")
trunc = _unary("trunc", "The integer next to x towards 0.")

add = _binary("add", "x1 + x2.")
atan2 = _binary("atan2", "The angle of the point (x2, x1), from -pi to pi.")
bitwise_and = _binary("bitwise_and", "The bits that are set in both.")
bitwise_left_shift = _binary("bitwise_left_shift", "The bits of x1, x2 places to the left.")
bitwise_or = _binary("bitwise_or", "The bits that are set in x1 or x2.")
bitwise_right_shift = _binary("bitwise_right_shift", "The bits of x1, x2 places to the right; the sign is kept.")
bitwise_xor = _binary("bitwise_xor", "The bits that are set in exactly one.")
copysign = _binary("copysign", "The magnitude of x1 with the sign of x2.")
divide = _binary("divide", "x1 / x2.", "div")
equal = _binary("equal", "x1 == x2.", "eq")
floor_divide = _binary("floor_divide", "x1 / x2, rounded down.")
greater = _binary("greater", "x1 > x2.", "gt")
greater_equal = _binary("greater_equal", "x1 >= x2.", "ge")
hypot = _binary("hypot", "sqrt(x1 * x1 + x2 * x2) without overflow.")
less = _binary("less", "x1 < x2.", "lt")
less_equal = _binary("less_equal", "x1 <= x2.", "le")
logaddexp = _binary("logaddexp", "log(exp(x1) + exp(x2)) without overflow.")
logical_and = _binary("logical_and", "Whether both are true.")
logical_or = _binary("logical_or", "Whether x1 or x2 is true.")
logical_xor = _binary("logical_xor", "Whether exactly one is true.")
maximum = _binary("maximum", "The larger one; NaN if one is NaN.")
minimum = _binary("minimum", "The smaller one; NaN if one is NaN.")
multiply = _binary("multiply", "x1 * x2.", "mul")
nextafter = _binary("nextafter", "The next number after x1 in the direction of x2.")
not_equal = _binary("not_equal", "x1 != x2.", "ne")
pow = _binary("pow", "x1 to the power of x2.")
remainder = _binary("remainder", "x1 - floor_divide(x1, x2) * x2: it has the sign of x2.")
subtract = _binary("subtract", "x1 - x2.", "sub")


def conj(x, /):
    """The complex conjugate; a real array is returned unchanged."""
    return ops["conj_physical"](x) if x.dtype.is_complex else x


def imag(x, /):
    """The imaginary part, which is a view of a complex array."""
    return ops["imag"](x) if x.dtype.is_complex else ops["zeros_like"](x)


def real(x, /):
    """The real part, which is a view of a complex array; a real array is returned unchanged."""
    return ops["real"](x) if x.dtype.is_complex else x


def positive(x, /):
    """A copy of x."""
    return x.clone()


def round(x, /):
    """The nearest integer, an even one if two are as near; of each part of a complex number."""
    if x.dtype.is_complex:
        return ops["complex"](ops["round"](ops["real"](x)), ops["round"](ops["imag"](x)))
    return ops["round"](x)


def sign(x, /):
    """-1, 0 or 1; x / abs(x) for complex numbers; NaN for NaN."""
    out = ops["sgn"](x)
    return ops["where"](x != x, x, out) if x.dtype.is_floating_point or x.dtype.is_complex else out


def clip(x, /, min=None, max=None):
    """x limited to [min, max], each a number or an array or None; the result has the dtype of x."""

    def bound(value):
        if value is None or isinstance(value, (builtins.bool, int, float)):
            return value
        return value if result_type(x, value) == x.dtype else value.to(x.dtype)

    min, max = bound(min), bound(max)
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        if min is not None:
            x = maximum(x, min)
        return x if max is None else minimum(x, max)
    return x.clone() if min is None and max is None else ops["clamp"](x, min, max)


__all__ = [name for name in globals() if not name.startswith("_")]
for _name in ("builtins", "promoted", "result_type", "Tensor", "ops"):
    __all__.remove(_name)
