"""Objects that raise, change their container or are not numbers: a typed error, or their own exception, and never a crash."""

import ctypes
import operator
import weakref

import numpy as np
import pytest
import strata
from strata import nn

F = nn.functional


class Boom(BaseException):
    """No Exception, as KeyboardInterrupt: what swallows errors must let it through."""


def raising(*names):
    def fail(*_):
        raise Boom

    return type("Raising", (), {name: fail for name in names})()


INDEX, TRUTH = raising("__index__"), raising("__bool__")
CALLS = {
    "int": lambda: strata.ones(2).sum(INDEX),
    "int by name": lambda: strata.ones(2).sum(dim=INDEX),
    "ints": lambda: strata.ones(4).view(2, INDEX),
    "list of ints": lambda: strata.ones(4).view([2, INDEX]),
    "tuple of ints": lambda: strata.zeros((INDEX,)),
    "index": lambda: strata.ones(2)[INDEX],
    "index in a tuple": lambda: strata.ones(2, 2)[0, INDEX],
    "slice": lambda: strata.ones(2)[INDEX:],
    "step": lambda: strata.ones(2)[::INDEX],
    "written index": lambda: strata.ones(2).__setitem__(INDEX, 1),
    "size": lambda: strata.ones(2).size(INDEX),
    "stride": lambda: strata.ones(2).stride(INDEX),
    "Tensor": lambda: strata.Tensor(2, INDEX),
    "Size": lambda: strata.Size([INDEX]),
    "device": lambda: strata.device("cpu", INDEX),
    "seed": lambda: strata.manual_seed(INDEX),
    "threads": lambda: strata.set_num_threads(INDEX),
    "inplace": lambda: F.relu(strata.ones(2), inplace=TRUTH),
    "pin_memory": lambda: strata.ones(2, pin_memory=TRUTH),
    "requires_grad": lambda: strata.tensor([1.0], requires_grad=TRUTH),
    "requires_grad_": lambda: strata.ones(2).requires_grad_(TRUTH),
    "requires_grad =": lambda: setattr(strata.ones(2), "requires_grad", TRUTH),
    "copy": lambda: strata.asarray([1.0], copy=TRUTH),
    "backward": lambda: strata.ones(1, requires_grad=True).backward(retain_graph=TRUTH),
    "sci_mode": lambda: strata.set_printoptions(sci_mode=TRUTH),
    "hook": lambda: hooked().backward(),
}


def hooked():
    x = strata.ones(1, requires_grad=True)
    x.register_hook(lambda g: INDEX.__index__())
    return x * 2


@pytest.mark.parametrize("name", CALLS)
def test_what_user_code_raises_comes_out(name):
    with pytest.raises(Boom):
        CALLS[name]()


OPERATORS = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift eq ne lt le gt ge".split()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("number", [2**70, -(2**70)])
def test_operators_refuse_integers_beyond_64_bits(name, number):
    f = getattr(operator, name)
    for dtype in (strata.float32, strata.int64):
        x = strata.ones(3, dtype=dtype)
        with pytest.raises(RuntimeError, match="overflow"):
            f(x, number)
        with pytest.raises(RuntimeError, match="overflow"):
            f(number, x)
        with pytest.raises(RuntimeError, match="overflow"):
            getattr(operator, "i" + name.strip("_"), f)(x, number)


ODD = {
    "datetime64": np.datetime64("2020-01-01"),
    "timedelta64": np.timedelta64(3),
    "str": np.str_("abc"),
    "record": np.zeros((), dtype="f4,i4")[()],
    "object array": np.array([1, 2], dtype=object),
    "text array": np.array(["a"]),
    "complex long double array": np.zeros(2, dtype=np.clongdouble),
    "record array": np.zeros(2, dtype="f4,i4"),
    "big-endian array": np.zeros(2, dtype=">f4"),
    "date array": np.zeros(2, dtype="datetime64[s]"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_number_is_refused(kind):
    x, odd = strata.ones(2), ODD[kind]
    calls = [
        lambda: strata.tensor(odd),
        lambda: strata.tensor([odd]),
        lambda: strata.asarray(odd),
        lambda: strata.full((2,), odd),
        lambda: strata.add(x, odd),
        lambda: x.__setitem__(0, odd),
    ]
    if "array" not in kind:
        calls += [lambda: x * odd, lambda: x.clamp(odd)]
    for call in calls:
        with pytest.raises((TypeError, ValueError)):
            call()


def test_numbers_of_numpy_and_ctypes_are_numbers():
    for kind in (np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint8, np.int64, np.uint32):
        assert (strata.ones(2) * kind(3)).tolist() == [3, 3]
        assert strata.tensor([kind(3)]).tolist() == [3]
    for kind in (np.complex64, np.complex128):
        assert (strata.ones(2) * kind(3j)).tolist() == [3j, 3j]
        assert strata.tensor([kind(3j)]).tolist() == [3j]
    with pytest.raises(RuntimeError, match="overflow"):
        strata.ones(2) * np.uint64(2**64 - 1)
    assert strata.tensor((ctypes.c_float * 2)(1, 2)).tolist() == [1, 2]
    assert strata.tensor(((ctypes.c_int * 2) * 3)()).shape == (3, 2)
    assert strata.tensor(ctypes.c_double(2)).item() == 2


def test_elements_that_change_their_list():
    def elements(base, change, n):
        items = []
        kind = type("Changing", (base,), {"__index__": lambda _: (change(items), 1)[1]})
        items.extend(kind() for _ in range(n))
        return items

    def refill(items):
        items.clear()
        items.extend([1] * 3)

    for change in (list.clear, refill, lambda items: items.extend([1] * 100)):
        for n in (1, 3, 40):
            for call in (strata.ones(1).view, strata.zeros, lambda s: strata.ones(1).sum(s)):
                try:
                    call(elements(object, change, n))
                except (TypeError, ValueError, RuntimeError, IndexError):
                    pass
            with pytest.raises(ValueError, match="changed") if n > 1 and change is list.clear else _any():
                strata.tensor(elements(ctypes.c_int, change, n))


class _any:
    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return kind is None or issubclass(kind, (TypeError, ValueError))


def test_keywords_that_are_no_utf8():
    for call in (
        lambda **k: strata.add(strata.ones(2), 1, **k),
        lambda **k: strata.ones(2).sum(**k),
        lambda **k: strata.ones(1, requires_grad=True).backward(**k),
        lambda **k: strata.tensor([1], **k),
        lambda **k: strata.ones(2).size(**k),
    ):
        with pytest.raises(TypeError):
            call(**{"\ud800": 1})
    with pytest.raises(UnicodeEncodeError):
        F.pad(strata.ones(3), (1, 1), mode="\ud800")


def test_subclasses_and_objects_that_were_not_made():
    with pytest.raises(TypeError, match="subclass of Tensor"):
        strata.Tensor._make_subclass(int, strata.ones(2))
    with pytest.raises(TypeError):
        object.__new__(strata.Tensor)
    with pytest.raises(TypeError):
        strata.Tensor.__new__(int)
    with pytest.raises(TypeError):
        strata.Tensor.exp(1)
    with pytest.raises(TypeError):
        strata.Tensor.numel(3)
    for kind in (type(strata.float32), type(strata.add)):
        with pytest.raises(TypeError):
            kind.__new__(kind)
    assert strata.Tensor.__new__(strata.Tensor).shape == (0,)


def test_sizes_are_integers():
    for bad in (["a"], [1.5], [None]):
        with pytest.raises(TypeError, match="iterable of 'int'"):
            strata.Size(bad)
    assert strata.Size([np.int64(2), 3]).numel() == 6
    with pytest.raises((RuntimeError, ValueError, OverflowError)):
        strata.Size([2**62, 2**62]).numel()


def test_device_numbers_do_not_wrap():
    for number in (128, 256, 2**31, 2**40, 2**70, -2):
        for kind in ("cpu", "vgpu", "cuda"):
            with pytest.raises(RuntimeError):
                strata.device(kind, number)
    for name in ("vgpu:256", "cuda:99999999999999999999", "cuda:-1", "cuda:", "cuda:x"):
        with pytest.raises(RuntimeError, match="invalid device"):
            strata.device(name)
    with pytest.raises(RuntimeError, match="has a number already"):
        strata.device("vgpu:0", 0)
    assert str(strata.Generator(device="vgpu").device) == "vgpu:0"
    assert str(strata.Generator().device) == "cpu"


def test_counts_of_threads_are_bounded():
    before = strata.get_num_threads()
    for n in (0, -1, 10**6, 2**31, 2**32 + 1, 2**70):
        with pytest.raises(RuntimeError, match="expected 1 to"):
            strata.set_num_threads(n)
    assert strata.get_num_threads() == before


def test_seeds_of_more_than_64_bits_are_refused():
    for seed in (2**64, -(2**63) - 1, 2**200):
        with pytest.raises(RuntimeError, match="64 bits"):
            strata.Generator().manual_seed(seed)
    for seed in (2**64 - 1, -1, -(2**63)):
        assert strata.Generator().manual_seed(seed).initial_seed() == seed % 2**64


def test_a_weak_reference_or_attribute_that_looks_at_a_dying_tensor():
    seen = []

    class Late:
        def __init__(self, view):
            self.view = view

        def __del__(self):
            seen.append(self.view._base.shape)

    for make in (lambda: nn.Parameter(strata.ones(3)), lambda: strata.ones(3)):
        for _ in range(50):
            x = make()
            view = x.view(-1)
            watch = weakref.ref(x, lambda _, view=view: seen.append(view._base.shape))
            if isinstance(x, nn.Parameter):
                x.late = Late(view)
            del x
            assert watch() is None
    assert len(seen) == 150 and all(s == (3,) for s in seen)


def test_layers_that_no_machine_can_hold_are_refused_at_once():
    layers = {nn.TransformerEncoder: nn.TransformerEncoderLayer, nn.TransformerDecoder: nn.TransformerDecoderLayer}
    for count in (10_001, 2**40, 2**70):
        for kind, layer in layers.items():
            with pytest.raises(ValueError, match="at most 10000"):
                kind(layer(4, 2, 4), count)
        for kind in (nn.RNN, nn.LSTM, nn.GRU):
            with pytest.raises(ValueError, match="at most 10000"):
                kind(2, 2, count)
        with pytest.raises(ValueError, match="at most 10000"):
            nn.Transformer(4, 2, count, 1, 4)


def test_lines_of_programs_whose_names_are_no_utf8():
    code = compile("log(tensor([-1.0]))", "\ud800.py", "exec").replace(co_name="\ud801")
    strata.autograd.set_detect_anomaly(True)
    try:
        with pytest.raises(RuntimeError, match=r"\\ud800.py"):
            exec(code, {"log": strata.log, "tensor": strata.tensor})
    finally:
        strata.autograd.set_detect_anomaly(False)
    made = {"strata": strata}
    exec(compile("x = strata.ones(3, device='vgpu') + 1", "\ud800.py", "exec"), made)
    assert made["x"].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "name", ["data", "shape", "dtype", "device", "requires_grad", "grad", "is_leaf", "T", "_version"]
)
def test_attributes_are_deleted_or_refused(name):
    x = strata.ones(2, requires_grad=True)
    try:
        delattr(x, name)
    except (AttributeError, RuntimeError):
        pass
    assert x.sum().item() == 2


def test_what_an_object_that_resembles_a_number_raises_is_not_lost():
    class Stop(BaseException):
        pass

    class Number(ctypes.c_int):
        asked = False

        def __getattr__(self, name):
            Number.asked = True
            raise Stop

    class Object:
        __getattr__ = Number.__getattr__

    calls = (
        lambda: strata.ones(2).add_(Number()),
        lambda: strata.ones(2).mul(Number()),
        lambda: strata.asarray(Object()),
        lambda: strata.tensor(Object()),
    )
    for call in calls:
        Number.asked = False
        with pytest.raises((TypeError, Stop)) as caught:
            call()
        assert isinstance(caught.value, Stop) == Number.asked
