"""Module: the base of every network; named parameters, buffers and children."""

import weakref

from .. import _C
from ..autograd import no_grad
from ..utils import hooks
from . import _hooks
from ._global_hooks import replaced
from ._state import StateDict
from ._tree import Tree
from .parameter import Buffer, Parameter

Tensor = _C.Tensor
_HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class _Replaced(dict):
    """The parameters or buffers of a module that has plain tensors as attributes: one of them may replace a parameter that was
    deleted, and the forward of a built-in module, which looks it up here by name, must find it."""

    def __init__(self, module, tensors):
        super().__init__(tensors)
        self.module = weakref.ref(module)

    def __missing__(self, name):
        return getattr(self.module(), name)

    def __reduce__(self):  # a copy belongs to another module: __setstate__ creates a new one
        return dict, (dict(self),)


def _indented(text):
    return text.replace("\n", "\n  ")


class Module(Tree, StateDict):
    """The base of every network. Assigning a Parameter, a Buffer or a Module to an attribute registers it."""

    training: bool = True
    _hooked = False  # whether a call must check hooks
    _optional_names = frozenset()  # tensors that a state_dict may lack

    def __init__(self, *args, **kwargs):
        if args or kwargs:
            given = next(iter(kwargs), None)
            what = f"an unexpected keyword argument '{given}'" if given else f"{len(args)} positional arguments"
            raise TypeError(f"{type(self).__name__}.__init__() got {what}; nn.Module takes none")
        own = self.__dict__
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        own["_non_persistent_buffers_set"] = set()
        for table in _HOOK_TABLES:
            own[table] = {}

    def forward(self, *input):
        """The computation of the module; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args, **kwargs):
        if self._hooked:
            return _hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # --- attributes ---------------------------------------------------------------------------------------------------

    def __getattr__(self, name):
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if table in own and name in own[table]:
                return own[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, keep="_parameters")  # a new value keeps the position of the old one
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._need_init("_modules")
            self._forget(name, keep="_modules")
            own["_modules"][name] = replaced("_modules", self, name, value)
        elif isinstance(value, Buffer):
            self._need_init("_buffers")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif "_parameters" in own and name in own["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' (strata.nn.Parameter or None expected)"
                )
            own["_parameters"][name] = None
        elif "_modules" in own and name in own["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' (strata.nn.Module or None expected)"
                )
            own["_modules"][name] = None
        elif "_buffers" in own and name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as buffer '{name}' (strata.Tensor or None expected)"
                )
            own["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)
            if isinstance(value, Tensor):
                self._look_further()

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                self._look_further()
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules}
        return sorted(n for n in names if not n[:1].isdigit())

    def __setstate__(self, state):
        self.__dict__.update(state)
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, {})
        if "_looks_further" in state:
            self._look_further()

    def _look_further(self):
        """From now on, forward finds attributes that replace parameters."""
        own = self.__dict__
        own["_looks_further"] = True
        for table in ("_parameters", "_buffers"):
            if table in own:
                own[table] = _Replaced(self, own[table])

    def _need_init(self, table):
        if table not in self.__dict__:
            what = {"_modules": "module", "_buffers": "buffer", "_parameters": "parameter"}[table]
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")

    def _forget(self, name, keep=None):
        own = self.__dict__
        own.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table in own and table != keep:
                own[table].pop(name, None)
        if keep != "_buffers" and "_non_persistent_buffers_set" in own:
            own["_non_persistent_buffers_set"].discard(name)

    def _check_name(self, name, table, what):
        self._need_init(table)
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got "{name}"')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in self.__dict__[table] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name, param):
        """Adds a parameter; None declares it without a value."""
        self._check_name(name, "_parameters", "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (strata.nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = replaced("_parameters", self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is part of the state but not trained; one that is not persistent is not saved."""
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (strata Tensor or None required)"
            )
        self._buffers[name] = replaced("_buffers", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name, module):
        """Adds a child."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "_modules", "module")
        self._modules[name] = replaced("_modules", self, name, module)

    register_module = add_module

    # --- modes and conversions ----------------------------------------------------------------------------------------

    def train(self, mode=True):
        """Training mode for this module and all below it: dropout drops, batch norm uses the batch."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """Evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Sets whether the parameters require gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Releases the gradients, or sets them to zero."""
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.detach().zero_()

    def apply(self, fn):
        """Calls fn(module) for all below, then for this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        """Replaces the values of parameters, gradients and buffers by fn(tensor); the Parameter objects stay."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for p in self._parameters.values():
                if p is not None:
                    p.data = fn(p.data)
                    if p.grad is not None:
                        p.grad.data = fn(p.grad.data)
            for name, b in self._buffers.items():
                if b is not None:
                    self._buffers[name] = fn(b)
        return self

    def to(self, *args, **kwargs):
        """to(device), to(dtype), to(device, dtype), to(tensor) or to(memory_format=...): converts floating and complex tensors."""
        device, dtype, memory_format = _conversion(*args, **kwargs)
        dims = {"channels_last": 4, "channels_last_3d": 5}.get(memory_format)

        def convert(t):
            if t.is_meta and device is not None and _C.device(device).type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use strata.nn.Module.to_empty() instead of "
                    "strata.nn.Module.to() when moving module from meta to a different device."
                )
            t = t.to(device=device, dtype=dtype if t.is_floating_point() or t.is_complex() else None)
            if memory_format is not None and (dims is None or t.dim() == dims):
                t = t.contiguous(memory_format=memory_format)
            return t

        return self._apply(convert)

    def share_memory(self):
        """Moves parameters and buffers into memory that other processes can map."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def to_empty(self, *, device, recurse=True):
        """Moves parameters and buffers to a device without their values, which the caller must set."""
        return self._apply(lambda t: _C.ops["empty_like"](t, device=device), recurse)

    def type(self, dst_type):
        """Converts all parameters and buffers."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self):
        """Floating tensors as float32."""
        return self.to(_C.float32)

    def double(self):
        """Floating tensors as float64."""
        return self.to(_C.float64)

    def half(self):
        """Floating tensors as float16."""
        return self.to(_C.float16)

    def bfloat16(self):
        """Floating tensors as bfloat16."""
        return self.to(_C.bfloat16)

    def cpu(self):
        """Everything on the CPU."""
        return self.to("cpu")

    def cuda(self, device=None):
        """Everything on a CUDA device."""
        return self.to("cuda" if device is None else device)

    # --- hooks --------------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; a returned value replaces args."""
        self._hooked = True
        return hooks.add(
            self._forward_pre_hooks, hook, prepend, self._forward_pre_hooks_with_kwargs, flagged=with_kwargs
        )

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; a returned value replaces the output."""
        self._hooked = True
        handle = hooks.add(self._forward_hooks, hook, prepend, self._forward_hooks_with_kwargs, flagged=with_kwargs)
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) in backward; a returned value replaces grad_input."""
        self._hooked = True
        return hooks.add(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook  # the older name

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) in backward; a returned value replaces grad_output."""
        self._hooked = True
        return hooks.add(self._backward_pre_hooks, hook, prepend)

    # --- text ---------------------------------------------------------------------------------------------------------

    def extra_repr(self):
        """The module's own text in repr()."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def _repr_html_(self):
        """A tree for notebooks."""
        from .._notebook import module_html

        return module_html(self)

    def __repr__(self):
        extra = self.extra_repr()
        lines = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if not lines and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        lines = [*([_indented(extra)] if extra else []), *lines]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _conversion(*args, device=None, dtype=None, non_blocking=False, memory_format=None):
    """(device, dtype, memory format) from the arguments of to()."""
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, _C.dtype):
            dtype = value
        elif isinstance(value, (str, _C.device)):
            device = value
        elif value is not None and not isinstance(value, bool):
            raise TypeError(f"to() expects a device, a dtype or a tensor, got {type(value).__name__}")
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
    return device, dtype, memory_format
