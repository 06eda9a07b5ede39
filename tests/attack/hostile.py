"""Hostile values that replace arguments in attacks. Everything is drawn from a seeded generator."""

import array
import ctypes
import decimal
import fractions
import struct

import numpy as np
import strata
from strata import nn

INTEGERS = (0, 1, -1, 2, 3, 5, 7, 10, -2, 64, 127, 128, 255, 256, -128, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**33 + 1, 2**40,
            2**53, 2**61, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 2**70, -(2**100), 10**40)  # fmt: skip
NUMBERS = (0.0, -0.0, 0.5, -1.5, 1e-320, 1e-45, 3e38, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), 2.0**63)
OTHER_NUMBERS = (
    True,
    False,
    1 + 2j,
    complex("nan"),
    fractions.Fraction(1, 3),
    decimal.Decimal("1.5"),
    decimal.Decimal("NaN"),
)
TEXTS = ("", "a", "mean", "sum", "none", "reflect", "bilinear", "cpu", "cuda", "cuda:99", "vgpu:300", "vgpu:-1", "cpu:1", "float32", "ij,jk->ik",
         "...", "->", "\ud800", "\0", "é", "x" * 5000, "%s%n", "{}", "{0.__class__}", "../x", "/dev/null")  # fmt: skip
DTYPES = (strata.float32, strata.float64, strata.float16, strata.bfloat16, strata.int64, strata.int32, strata.int16, strata.int8, strata.uint8,
          strata.bool, strata.float8_e4m3fn, strata.float8_e5m2)  # fmt: skip
SHAPES = ((), (0,), (1,), (2,), (3,), (7,), (2, 3), (3, 3), (0, 3), (3, 0), (1, 1), (2, 3, 4), (1, 3, 1), (2, 0, 3), (1, 2, 5, 5), (2, 3, 1, 1),
          (1, 1, 1, 1), (2, 2, 3, 4, 2), (1,) * 10, (65,), (33, 2))  # fmt: skip


class Interrupt(BaseException):
    """Raised by hostile objects: it must reach the caller unchanged."""


class Raised:
    """Counts the Interrupts raised during a call."""

    count = 0


def interrupt(*_args, **_keywords):
    Raised.count += 1
    raise Interrupt


def wrong_type(*_args, **_keywords):
    return object()


def type_error(*_args, **_keywords):
    raise TypeError("hostile")


def evil_object(rng):
    """An object one of whose special methods raises, or returns nonsense."""
    protocols = ("__index__", "__int__", "__float__", "__bool__", "__len__", "__iter__", "__getitem__", "__array__", "__eq__", "__hash__",
                 "__str__", "__repr__", "__call__", "__dlpack__", "__dlpack_device__", "__complex__", "__next__", "__contains__", "__radd__",
                 "__getattr__", "__enter__", "__fspath__", "__reduce_ex__", "__deepcopy__")  # fmt: skip
    chosen = rng.sample(protocols, rng.choice((1, 1, 2, 4)))
    body = {
        name: rng.choice((interrupt, interrupt, wrong_type, type_error, lambda *_: -1, lambda *_: 2**63))
        for name in chosen
    }
    base = rng.choice((object, object, object, int, float, str, list, tuple, dict, ctypes.c_int))
    try:
        return type("Evil", (base,), body)()
    except BaseException:
        return object()


def changing_list(rng):
    """A list that an element empties or fills while it is being read."""
    items = []

    class Element(int):
        def __index__(self):
            items.clear() if rng.random() < 0.5 else items.extend([1] * 3)
            return 1

        __int__ = __index__

        def __float__(self):
            items.clear()
            return 1.0

        def __str__(self):
            items.clear()
            return "x"

    class Plain:
        __index__ = Element.__index__
        __float__ = Element.__float__
        __str__ = Element.__str__

    items.extend(rng.choice((Element, Plain))() for _ in range(rng.choice((1, 3, 40))))
    return items


def numpy_scalar(rng):
    return rng.choice((
        lambda: np.float16(1.5), lambda: np.float32("nan"), lambda: np.longdouble(2), lambda: np.complex64(1j), lambda: np.bool_(True),
        lambda: np.uint64(2**64 - 1), lambda: np.int8(-3), lambda: np.str_("abc"), lambda: np.bytes_(b"abc"), lambda: np.datetime64("2020-01-01"),
        lambda: np.timedelta64(3, "s"), lambda: np.void(b"abcd"), lambda: np.array([(1, 2.0)], dtype="i4,f8")[0],
    ))()  # fmt: skip


def numpy_array(rng):
    kind = rng.choice(
        (
            "f4",
            "f8",
            "f2",
            "i8",
            "i4",
            "u1",
            "?",
            "c8",
            "O",
            "U3",
            "S2",
            "M8[s]",
            "m8[s]",
            ">f4",
            "u2",
            "u8",
            "g",
            "i4,f8",
            "V3",
        )
    )
    shape = rng.choice((*SHAPES, (1,) * 11, (2,) * 12))
    a = np.zeros(shape, kind)
    form = rng.randrange(6)
    if form == 1 and a.ndim:
        a = a[::-1]
    elif form == 2 and a.ndim > 1:
        a = a.T
    elif form == 3:
        a.flags.writeable = False
    elif form == 4 and a.ndim:
        a = np.broadcast_to(a, (3, *a.shape))
    elif form == 5 and a.dtype.itemsize > 1 and a.nbytes:
        a = np.frombuffer(b"\0" * (a.nbytes + 1), np.uint8)[1:].view(a.dtype) if kind not in ("O",) else a  # misaligned
    return a


def buffer(rng):
    return rng.choice((
        lambda: b"", lambda: b"abcd", lambda: bytearray(16), lambda: memoryview(bytearray(12)), lambda: memoryview(b"abcdef")[::2],
        lambda: array.array("d", [1, 2]), lambda: array.array("u", "ab"), lambda: (ctypes.c_float * 2)(1, 2),
        lambda: (ctypes.c_int * 0)(), lambda: (ctypes.c_char * 4)(), lambda: struct.pack("<q", 2**63 - 1), lambda: ctypes.c_void_p(0),
        lambda: memoryview(np.zeros((2, 3, 4)))[::-1],
    ))()  # fmt: skip


def filled(rng, shape, dtype, device):
    """A tensor of these with plain or special values."""
    if dtype is strata.bool:
        return strata.randint(0, 2, shape, device=device).to(strata.bool)
    if not dtype.is_floating_point:
        low, high = rng.choice(((0, 2), (-3, 4), (0, 127), (-(2**31), 2**31), (-(2**62), 2**62)))
        return strata.randint(low, high, shape, device=device).to(dtype)
    t = strata.randn(shape, device=device) * rng.choice((1.0, 1.0, 1e-3, 1e30))
    if rng.random() < 0.2:
        t = strata.where(t > 0, t, rng.choice((float("nan"), float("inf"), 0.0)))
    return t.to(dtype)


def tensor(rng, device="cpu", shape=None, dtype=None):
    """A tensor of any dtype, layout and history."""
    shape = rng.choice(SHAPES) if shape is None else shape
    dtype = rng.choice(DTYPES if rng.random() < 0.5 else DTYPES[:2]) if dtype is None else dtype
    t = filled(rng, shape, dtype, device)
    return dressed(rng, t)


def dressed(rng, t):
    """The same values behind another layout, owner or history."""
    form = rng.randrange(14)
    if t.is_inference():
        return t
    t = t.detach()
    floating = t.dtype in DTYPES[:4]
    if form == 0 and t.dim() > 1:
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    if form == 1 and t.dim():
        wide = strata.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype, device=t.device)
        wide[..., ::2] = t
        return wide[..., ::2]
    if form == 2 and t.dim() and t.shape[0]:
        return t[:1].expand(3, *t.shape[1:])
    if form == 3 and t.dim() and t.shape[0] > 1:
        return t[1:]
    if form == 4 and floating:
        return t.requires_grad_()
    if form == 5 and floating:
        return t.requires_grad_() * 1
    if form == 6 and t.device.type == "cpu" and t.dtype in DTYPES[:3] + DTYPES[4:10]:
        a = t.numpy().copy()
        a.flags.writeable = False
        return strata.from_numpy(a)
    if form == 7 and floating:
        return nn.Parameter(t)
    if form == 8:
        with strata.inference_mode():
            return t.clone()
    if form == 9 and floating and t.dim():
        base = t.requires_grad_() * 1
        return base[:]
    if form == 10 and t.dim() == 4:
        return t.contiguous(memory_format=strata.channels_last)
    if form == 11:
        return t.detach()
    return t


def nested(rng, device, depth=0):
    """Lists of lists of anything."""
    items = [hostile(rng, device, depth + 1) for _ in range(rng.choice((0, 1, 2, 2, 3, 11)))]
    return rng.choice((list, list, tuple))(items)


def endless_list():
    loop = []
    loop.append(loop)
    return loop


def odd_object(rng):
    return rng.choice((
        lambda: None, lambda: ..., lambda: NotImplemented, lambda: object(), lambda: slice(None, None, 0), lambda: slice(2**70, -1, None),
        lambda: range(5), lambda: range(2**40), lambda: (x for x in (1, 2)), lambda: {}, lambda: {"a": 1}, lambda: {1, 2}, lambda: iter([1, 2]), lambda: int,
        lambda: strata.Tensor, lambda: len, lambda: lambda *_a, **_k: None, lambda: lambda x: x, endless_list, lambda: [1] * 100_000,
        lambda: [[1, 2], [3]], lambda: strata.float32, lambda: strata.device("cpu"), lambda: strata.Generator(), lambda: strata.Size((2, 3)),
        lambda: nn.Linear(2, 2), lambda: nn, lambda: strata.float8_e5m2, lambda: Exception("x"),
    ))()  # fmt: skip


def integers(rng):
    return [rng.choice(INTEGERS) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6, 12)))]


def hostile(rng, device="cpu", depth=0):
    """Anything."""
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(INTEGERS)
    if kind < 0.27:
        return rng.choice(NUMBERS)
    if kind < 0.30:
        return rng.choice(OTHER_NUMBERS)
    if kind < 0.34:
        return rng.choice(TEXTS)
    if kind < 0.58:
        return tensor(rng, device if rng.random() < 0.95 else "cpu")
    if kind < 0.66:
        return integers(rng)
    if kind < 0.70:
        return rng.choice((numpy_scalar, numpy_array))(rng)
    if kind < 0.73:
        return buffer(rng)
    if kind < 0.83:
        return odd_object(rng)
    if kind < 0.90:
        return evil_object(rng)
    if kind < 0.92:
        return changing_list(rng)
    return nested(rng, device, depth) if depth < 2 else None


def mutated(rng, value, device):
    """A value near a good one: another size, dtype, layout or number; sometimes something else altogether."""
    if rng.random() < 0.3:
        return hostile(rng, device)
    if isinstance(value, strata.Tensor):
        choice = rng.randrange(4)
        if choice == 0:
            return dressed(rng, value.detach().clone())
        if choice == 1:
            return tensor(rng, device, dtype=value.dtype)
        if choice == 2:
            return tensor(rng, device, shape=tuple(value.shape))
        return tensor(rng, device)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(INTEGERS)
    if isinstance(value, float):
        return rng.choice(NUMBERS)
    if isinstance(value, str):
        return rng.choice(TEXTS)
    if isinstance(value, (list, tuple)) and value:
        items = list(value)
        place = rng.randrange(len(items))
        choice = rng.randrange(4)
        if choice == 0:
            items.pop(place)
        elif choice == 1:
            items.append(items[place])
        else:
            items[place] = mutated(rng, items[place], device)
        return type(value)(items) if type(value) in (list, tuple) else items
    return hostile(rng, device)
