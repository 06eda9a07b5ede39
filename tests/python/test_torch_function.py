"""__torch_function__: types that handle calls themselves, subclasses of Tensor, modes. Expected names are those that handlers
see in PyTorch."""

import copy
import pickle
import threading

import pytest
import strata
import strata.nn.functional as F
from strata.torch import overrides


class Plain(strata.Tensor):
    pass


class Logged(strata.Tensor):
    log = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Duck:
    """No tensor: remembers the call."""

    def __init__(self, answer=True):
        self.answer = answer

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs


class Refuses:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


SEEN = [  # expression, the names that a handler sees
    ("x + 1", ["add"]),
    ("1 + x", ["add"]),
    ("x - 1", ["sub"]),
    ("1 - x", ["__rsub__"]),
    ("x / 2", ["div"]),
    ("x // 2", ["__floordiv__"]),
    ("2 // x", ["__rfloordiv__"]),
    ("2 % x", ["__rmod__"]),
    ("2 ** x", ["__rpow__"]),
    ("x @ x.t()", ["t", "matmul"]),
    ("x == 1", ["__eq__"]),
    ("x != 1", ["ne"]),
    ("x < 1", ["lt"]),
    ("-x", ["neg"]),
    ("abs(x)", ["abs"]),
    ("i & 1", ["__and__"]),
    ("1 | i", ["bitwise_or"]),
    ("i << 1", ["__lshift__"]),
    ("x[0]", ["__getitem__"]),
    ("len(x)", ["__len__"]),
    ("float(x.sum())", ["sum", "__float__"]),
    ("bool(x.sum())", ["sum", "__bool__"]),
    ("x.shape", ["__get__"]),
    ("x.T", ["__get__"]),
    ("x.size(0)", ["size"]),
    ("x.dim()", ["dim"]),
    ("x.tolist()", ["tolist"]),
    ("strata.sum(x, dim=0)", ["sum"]),
    ("strata.cat([x, x])", ["cat"]),
    ("strata.stack((strata.ones(2, 3), x))", ["stack"]),
    ("F.relu(x)", ["relu"]),
    ("F.max_pool2d(x[None], 1)", ["__getitem__", "max_pool2d"]),
    ("strata.einsum('ij->i', x)", ["einsum"]),
    ("strata.ones(2, 3) + x", ["add"]),
    ("strata.where(x > 0, x, x)", ["gt", "where"]),
    ("x.requires_grad", ["__get__"]),
    ("strata.tensordot(x, x.t(), 1)", ["t", "tensordot"]),
    ("strata.ones(3)[i]", ["__getitem__"]),
]


@pytest.mark.parametrize("expression, names", SEEN)
def test_handlers_see_the_functions_that_pytorch_shows(expression, names):
    x = strata.ones(2, 3).as_subclass(Logged)
    i = strata.ones(2, dtype=strata.int64).as_subclass(Logged)
    plain = eval(
        expression, {"x": strata.ones(2, 3), "i": strata.ones(2, dtype=strata.int64), "strata": strata, "F": F}
    )
    Logged.log.clear()
    result = eval(expression, {"x": x, "i": i, "strata": strata, "F": F})
    assert Logged.log == names
    if isinstance(plain, strata.Tensor):
        assert type(result) is Logged
        assert result.tolist() == plain.tolist()
    else:
        assert result == plain


def test_inplace_operators_and_assignment():
    x = strata.ones(2, 3).as_subclass(Logged)
    Logged.log.clear()
    before = x
    x += 1
    x -= strata.ones(3)
    x[0] = 5
    assert Logged.log == ["add_", "sub_", "__setitem__"]
    assert x is before and type(x) is Logged
    assert x.tolist() == [[5, 5, 5], [1, 1, 1]]
    plain = strata.ones(3)
    plain[0] = strata.tensor(2.0).as_subclass(Logged)
    assert plain.tolist() == [2, 1, 1] and type(plain) is strata.Tensor


def test_results_of_a_subclass_are_of_the_subclass():
    p = strata.arange(4.0).as_subclass(Plain)
    assert type(p + 1) is type(p[0]) is type(p.data) is type(p.detach()) is type(p.T) is Plain
    assert type(p.to(strata.float64)) is type(p.float()) is type(p.cpu()) is type(p.clone()) is Plain
    assert all(type(part) is Plain for part in p.split(2))
    largest = p.max(0)
    assert type(largest).__name__ == "max" and type(largest.values) is type(largest.indices) is Plain
    assert type(p.shape) is strata.Size and type(p.tolist()) is list
    assert repr(p) == "Plain([0., 1., 2., 3.])"
    assert repr(strata.ones(2, 2).as_subclass(Plain)) == "Plain([[1., 1.],\n       [1., 1.]])"
    assert type(strata.add(strata.ones(4), p)) is Plain
    assert type(strata.nn.Parameter(strata.ones(2)) + 1) is strata.Tensor
    assert type(strata.nn.Parameter(strata.ones(4)) + p) is Plain


def test_subclass_of_a_subclass_is_asked_first():
    class Base(strata.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    class Derived(Base):
        pass

    asked = []
    result = strata.ones(2).as_subclass(Base) + strata.ones(2).as_subclass(Derived)
    assert asked == ["Derived"] and type(result) is Derived


def test_unrelated_subclasses_refuse_each_other():
    class Other(strata.Tensor):
        pass

    with pytest.raises(TypeError, match="unsupported operand"):
        strata.ones(2).as_subclass(Plain) + strata.ones(2).as_subclass(Other)
    with pytest.raises(TypeError, match="no implementation found for 'add'.*Plain.*Other"):
        strata.add(strata.ones(2).as_subclass(Plain), strata.ones(2).as_subclass(Other))


def test_as_subclass_keeps_gradients():
    x = strata.ones(3, requires_grad=True)
    y = (x * 2).as_subclass(Plain)
    (y * 3).sum().backward()
    assert x.grad.tolist() == [6, 6, 6]
    z = x.as_subclass(Plain)
    assert not z.is_leaf and type(z) is Plain
    z.sum().backward()
    assert x.grad.tolist() == [7, 7, 7] and type(x.grad) is strata.Tensor
    leaf = strata.ones(2).as_subclass(Plain).requires_grad_()
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2]
    shared = strata.zeros(2)
    shared.as_subclass(Plain).add_(1)
    assert shared.tolist() == [1, 1]
    with pytest.raises(TypeError, match="subclass of Tensor"):
        shared.as_subclass(int)


def test_a_subclass_passes_through_a_module_with_gradients():
    net = strata.nn.Sequential(strata.nn.Linear(3, 4), strata.nn.ReLU(), strata.nn.Linear(4, 2))
    x = strata.randn(5, 3)
    out = net(x.as_subclass(Plain))
    assert type(out) is Plain and strata.equal(strata.Tensor.as_subclass(out, strata.Tensor), net(x))
    out.sum().backward()
    assert all(p.grad is not None and type(p) is strata.nn.Parameter for p in net.parameters())


def test_copies_and_pickles_of_a_subclass():
    p = strata.ones(2).as_subclass(Plain)
    assert type(copy.deepcopy(p)) is type(copy.copy(p)) is type(pickle.loads(pickle.dumps(p))) is Plain


def test_objects_that_are_no_tensors():
    duck = Duck()
    assert strata.add(duck, 1) == (strata.add, (Duck,), (duck, 1), {})
    assert strata.add(1, duck, alpha=2) == (strata.add, (Duck,), (1, duck), {"alpha": 2})
    assert strata.sum(strata.ones(2), dim=duck)[3] == {"dim": duck}
    assert F.relu(duck)[0] is F.relu
    assert F.max_pool2d(duck, 2)[0] is F.max_pool2d
    assert F.adaptive_avg_pool2d(duck, (None, 1))[0] is F.adaptive_avg_pool2d
    assert strata.linalg.norm(duck)[0] is strata.linalg.norm
    assert strata.cat([strata.ones(1), duck])[2][0][1] is duck
    assert strata.einsum("i->", duck)[0] is strata.einsum
    assert strata.meshgrid([duck, duck])[0] is strata.meshgrid
    one = strata.ones(1)
    assert (one + duck)[:3] == (strata.add, (Duck,), (one, duck))
    assert (duck - one)[0] is not strata.sub  # reflected
    assert one.view(duck)[2] == (one, duck)
    assert one.view((duck, -1))[2] == (one, (duck, -1))
    assert strata.zeros((duck, 3))[0] is strata.zeros
    assert strata.zeros(duck, 3)[0] is strata.zeros
    assert one[duck][2] == (one, duck)
    with pytest.raises(TypeError):
        strata.add(one, object())


def test_errors():
    with pytest.raises(TypeError, match="no implementation found for 'relu'.*Refuses"):
        F.relu(Refuses())
    with pytest.raises(TypeError, match="unsupported operand"):
        strata.ones(1) + Refuses()
    assert strata.add(Refuses(), Duck())[0] is strata.add

    class Broken:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise KeyError("from the handler")

    for call in (lambda: strata.add(Broken(), 1), lambda: strata.ones(1) + Broken(), lambda: strata.ones(2)[Broken()]):
        with pytest.raises(KeyError, match="from the handler"):
            call()

    class Instance:  # not a class method, as in older programs
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return self

    instance = Instance()
    assert strata.exp(instance) is instance


def test_turning_handlers_off():
    x = strata.ones(2).as_subclass(Plain)
    with strata._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is strata.Tensor
        assert not overrides.has_torch_function((x,))
        with pytest.raises(TypeError, match="must be Tensor"):
            strata.exp(Duck())
    assert type(x + 1) is Plain

    class Quiet(strata.Tensor):
        __torch_function__ = strata._C._disabled_torch_function_impl

    assert type(strata.ones(2).as_subclass(Quiet) + 1) is strata.Tensor


def test_overrides_module():
    assert overrides.has_torch_function((1, Duck()))
    assert overrides.has_torch_function_unary(strata.ones(1).as_subclass(Plain))
    assert not overrides.has_torch_function_variadic(1, strata.ones(1), strata.nn.Parameter(strata.ones(1)), None, [])
    assert overrides.is_tensor_like(Duck()) and overrides.is_tensor_like(strata.ones(1))
    assert not overrides.is_tensor_like(1) and not overrides.is_tensor_like([strata.ones(1)])

    def mean_plus(a, b=1):
        if overrides.has_torch_function((a,)):
            return overrides.handle_torch_function(mean_plus, (a,), a, b=b)
        return a.mean() + b

    duck = Duck()
    assert mean_plus(duck, 2) == (mean_plus, (Duck,), (duck,), {"b": 2})
    assert mean_plus(strata.ones(2)).item() == 2
    with pytest.raises(TypeError, match="mean_plus"):
        mean_plus(Refuses())

    @overrides.wrap_torch_function(lambda a: (a,))
    def twice(a):
        return 2 * a

    assert twice(3) == 6 and twice(duck)[0] is twice
    functions = overrides.get_overridable_functions()
    assert strata.add in functions[strata] and F.relu in functions[F] and F.max_pool2d in functions[F]
    assert strata.Tensor.add in functions[strata.Tensor]
    assert strata.is_tensor in overrides.get_ignored_functions()
    assert overrides.resolve_name(F.relu) == "torch.nn.functional.relu"
    assert overrides.is_tensor_method_or_property(strata.Tensor.add)
    assert overrides.is_tensor_method_or_property(strata.Tensor.shape.__get__)
    assert not overrides.is_tensor_method_or_property(F.max_pool2d)


def test_modes():
    class Counts(overrides.TorchFunctionMode):
        def __init__(self):
            self.seen = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = strata.ones(2)
    with Counts() as outer:
        y = strata.zeros(2) + x
        with Counts() as inner:
            z = F.relu(y)[0]
        assert overrides._get_current_function_mode() is outer
    assert outer.seen == ["zeros", "add", "relu", "__getitem__"]  # the inner mode's calls reach the outer one
    assert inner.seen == ["relu", "__getitem__"]
    assert type(y) is strata.Tensor and z.item() == 1
    assert overrides._get_current_function_mode() is None
    x + x
    assert len(outer.seen) == 4

    class Doubles(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is strata.ones else result

    with Doubles():
        assert strata.ones(1).item() == 2
        with strata._C.DisableTorchFunction():
            assert strata.ones(1).item() == 1
        found = []
        thread = threading.Thread(target=lambda: found.append(strata.ones(1).item()))
        thread.start()
        thread.join()
        assert found == [1.0]  # modes belong to a thread
    with pytest.raises(ZeroDivisionError), Counts():
        strata.ones(1 // 0)
    assert strata.ones(1).item() == 1


def test_wrapped_functions_look_like_functions():
    import inspect

    assert list(inspect.signature(F.max_pool2d).parameters)[:2] == ["input", "kernel_size"]
    assert F.adaptive_avg_pool2d.__name__ == "adaptive_avg_pool2d" and F.adaptive_avg_pool2d.__doc__
    assert pickle.loads(pickle.dumps(F.adaptive_avg_pool2d)) is F.adaptive_avg_pool2d
    assert pickle.loads(pickle.dumps(strata.tensordot)) is strata.tensordot


def test_metadata_example():
    """The example of PyTorch's documentation: a tensor with metadata that survives functions."""

    class MetadataTensor:
        def __init__(self, data, metadata=None):
            self._t, self._metadata = strata.as_tensor(data), metadata

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
            args = [getattr(a, "_t", a) for a in args]
            return MetadataTensor(func(*args, **(kwargs or {})), metadata=metadatas[0])

    m = MetadataTensor([[1.0, 2.0], [3.0, 4.0]], metadata={"owner": "Ministry of Silly Walks"})
    t = strata.tensor([[1.0, 2.0], [1.0, 2.0]])
    for result in (strata.add(t, m), t + m):
        assert result._metadata == m._metadata and result._t.tolist() == [[2, 4], [4, 6]]
    assert strata.mean(m)._t.item() == 2.5
