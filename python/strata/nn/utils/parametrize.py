"""Parametrizations: parameters of a module that are functions of other tensors."""

import contextlib
import copy

from ... import _C
from ...autograd import no_grad
from ..containers import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

_cache, _cache_users = {}, 0


@contextlib.contextmanager
def cached():
    """In its block, a parametrized tensor is computed only once."""
    global _cache_users
    _cache_users += 1
    try:
        yield
    finally:
        _cache_users -= 1
        if not _cache_users:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The functions of one parameter, first to last, and the tensors that the first one takes."""

    def __init__(self, modules, original, unsafe=False):
        super().__init__(modules)
        self.unsafe, trained = unsafe, isinstance(original, Parameter)
        with no_grad():
            new = self._inverse(original)
        self.is_tensor = isinstance(new, _C.Tensor)
        self._names = ["original"] if self.is_tensor else [f"original{i}" for i in range(len(new))]
        for name, tensor in zip(self._names, [new] if self.is_tensor else new, strict=True):
            if not isinstance(tensor, _C.Tensor):
                raise ValueError(
                    f"right_inverse must return a Tensor or a sequence of them, got {type(tensor).__name__}"
                )
            if trained:
                if self.is_tensor:  # the parameter itself, so that optimizers still refer to it
                    original.data = tensor
                self.register_parameter(name, original if self.is_tensor else Parameter(tensor, original.requires_grad))
            else:
                self.register_buffer(name, tensor)

    def _inverse(self, value):
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                value = module.right_inverse(value)
            elif not isinstance(value, _C.Tensor):
                raise ValueError(f"{type(module).__name__} has no right_inverse, which several tensors need")
        return value

    def right_inverse(self, value):
        """Sets the tensors so that the parameter becomes value; the functions must have inverses."""
        with no_grad():
            value = self._inverse(value)
            for name, tensor in zip(self._names, [value] if self.is_tensor else value, strict=True):
                mine = getattr(self, name)
                mine.data = tensor.to(mine.dtype)

    def forward(self):
        modules = iter(self)
        x = next(modules)(*(getattr(self, name) for name in self._names))
        for module in modules:
            x = module(x)
        return x


def is_parametrized(module, tensor_name=None):
    """Whether a module has a parametrization, or one of the named tensor."""
    lists = module._modules.get("parametrizations")
    if not isinstance(lists, ModuleDict):
        return False
    return len(lists) > 0 if tensor_name is None else tensor_name in lists


def type_before_parametrizations(module):
    """The original class of a parametrized module."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def _no_pickle(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): save that instead"
    )


def _deepcopied(self, memo):
    replica = type_before_parametrizations(self)
    replica = replica.__new__(replica)
    memo[id(self)] = replica
    replica.__setstate__(copy.deepcopy(self.__dict__, memo))
    replica.__class__ = _parametrized_class(type_before_parametrizations(self), replica.parametrizations)
    return replica


def _parametrized_class(base, names):
    own = {name: _property(name) for name in names}
    own.update(__getstate__=_no_pickle, __deepcopy__=_deepcopied, __module__=base.__module__)
    return type(f"Parametrized{base.__name__}", (base,), own)


def _property(name):
    def get(self):
        lists = self._modules["parametrizations"]
        if not _cache_users:
            return lists[name]()
        key = id(self), name
        if key not in _cache:
            _cache[key] = self, lists[name]()  # keep the module, so that its id is not reused
        return _cache[key][1]

    def put(self, value):
        self._modules["parametrizations"][name].right_inverse(value)

    return property(get, put)


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on, module.<tensor_name> is parametrization(original), where the original is trained.

    Assigning to it needs a method right_inverse(value), which returns the original. A second parametrization takes the result of
    the first. The result must have the shape and dtype of the tensor, unless unsafe.
    """
    parametrization.train(module.training)
    before = getattr(module, tensor_name, None)
    if is_parametrized(module, tensor_name):
        found = module.parametrizations[tensor_name]
        if not unsafe:
            _check_fits(parametrization(before), before, parametrization, tensor_name)
            if hasattr(parametrization, "right_inverse"):
                _check_fits(parametrization.right_inverse(before), before, parametrization, tensor_name)
        found.append(parametrization)
        found.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    shape_and_type = before.detach().clone()
    functions = ParametrizationList([parametrization], before, unsafe)
    if not unsafe:
        with no_grad():
            _check_fits(functions(), shape_and_type, parametrization, tensor_name)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    base = type_before_parametrizations(module)
    module.parametrizations[tensor_name] = functions
    module.__class__ = _parametrized_class(base, module.parametrizations)
    return module


def _check_fits(result, tensor, parametrization, name):
    if not isinstance(result, _C.Tensor) or result.shape != tensor.shape or result.dtype != tensor.dtype:
        found = f"{result.dtype} {list(result.shape)}" if isinstance(result, _C.Tensor) else type(result).__name__
        raise ValueError(
            f"{type(parametrization).__name__} must give '{name}' the shape and dtype it had, {tensor.dtype} "
            f"{list(tensor.shape)}, but gave {found}; unsafe=True allows it"
        )


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes a tensor a plain parameter or buffer again: with its current value or, if not leave_parametrized, the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    functions = module.parametrizations[tensor_name]
    if not leave_parametrized and not functions.is_tensor:
        raise ValueError("leave_parametrized=False needs a parametrization with one original tensor")
    trained = functions._names[0] in functions._parameters
    with no_grad():
        value = getattr(module, tensor_name).detach().clone() if leave_parametrized else functions.original
    if functions.is_tensor and trained:  # the same parameter as before, which optimizers may refer to
        functions.original.data = value.data
        value = functions.original
    base = type_before_parametrizations(module)
    del module.parametrizations[tensor_name]
    module.__class__ = _parametrized_class(base, module.parametrizations) if len(module.parametrizations) else base
    if not is_parametrized(module):
        del module.parametrizations
    if trained:
        value = value if isinstance(value, Parameter) else Parameter(value)
        module.register_parameter(tensor_name, value)
    else:
        module.register_buffer(tensor_name, value)
    return module
