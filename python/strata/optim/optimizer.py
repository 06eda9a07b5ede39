"""Optimizer: parameter groups, per-parameter state, state_dict, hooks. The arithmetic of a step is an op of the library."""

import functools
import typing
from collections import defaultdict

import strata

from ..utils import hooks
from ._options import CHOICES, PARTS

# Arguments of PyTorch's optimizers that choose an implementation. A step is always one fused pass here; an optimizer
# without step counts can always be captured.
_CHOICES = ("foreach", "fused", "capturable")


ParamsT = typing.Iterable  # of parameters, of dicts of options, or of pairs with names
_params_t = ParamsT


class _RequiredParameter:
    """The default of an option that every group must have."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _use_grad_for_differentiable(step):
    """A decorator of step(): records nothing, as no step of this version is differentiated."""

    def step_without_grad(self, *args, **kwargs):
        with strata.no_grad():
            return step(self, *args, **kwargs)

    return functools.update_wrapper(step_without_grad, step)


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach): neither, so that a program with several implementations uses the plain one."""
    return False, False


def _get_capturable_supported_devices(supports_xla=True):
    """The device types whose steps can be captured."""
    return ["cuda", "vgpu"]


def _get_value(x):
    """A number from a number or a tensor."""
    return x.item() if isinstance(x, strata.Tensor) else x


def no_choice(name, options):
    """Accepts PyTorch's implementation switches, rejects anything else."""
    for key, value in options.items():
        if key == "differentiable":
            if value:
                raise NotImplementedError(
                    f"{name}: differentiable=True is not supported: a step changes parameters in place. "
                    "Write the update with ops to differentiate through it"
                )
        elif key not in _CHOICES:
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")


def flat_options(group):
    """The numbers of a group by their names in the library. Other values are skipped."""
    flat = {}
    for name, value in group.items():
        if name in PARTS:
            parts = PARTS[name]
            if not isinstance(value, (tuple, list)) or len(value) != len(parts):
                raise ValueError(f"{name} must be {len(parts)} numbers, found {value}")
            if len({isinstance(v, strata.Tensor) for v in value}) > 1:
                raise ValueError(f"{name} must be either all floats or all Tensors, found {value}")
            flat.update(zip(parts, (one_number(name, v) for v in value), strict=True))
        elif name in CHOICES:
            if value is not None and value not in CHOICES[name]:
                known = ", ".join(map(repr, CHOICES[name]))
                raise ValueError(f"{name} {value!r} is not supported: choose one of {known}")
            flat[name] = 0 if value is None else CHOICES[name].index(value)
        elif isinstance(value, (bool, int, float)):
            flat[name] = value
        elif name == "lr" and isinstance(value, strata.Tensor) and value.device.type != "cpu":
            flat[name] = value  # the device reads it, so that a captured step uses its current value
        elif isinstance(value, strata.Tensor) or hasattr(value, "__float__"):
            flat[name] = float(one_number(name, value))
    return flat


def one_number(name, value):
    """The value; a tensor must have one element."""
    if isinstance(value, strata.Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element, found shape {list(value.shape)}")
    return value


def loss_of(closure):
    """What the closure of step() returns; it computes gradients, whatever mode step() is called in."""
    if closure is None:
        return None
    with strata.enable_grad():
        return closure()


class Optimizer:
    """Base of all optimizers.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dicts: groups with their own options. Custom
    subclasses override `step`; `self.param_groups` is a list of dicts and `self.state[p]` a dict per parameter.
    """

    def __init__(self, params, defaults):
        if isinstance(params, strata.Tensor):
            raise TypeError(
                f"params must be an iterable of tensors or dicts, got a Tensor; write [{type(self).__name__.lower()}_param]"
            )
        self.defaults = dict(defaults)
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Adds parameters with their own options; options not given are the optimizer's defaults."""
        if not isinstance(group, dict):
            raise TypeError(f"param_group must be a dict, got {type(group).__name__}")
        if "params" not in group:
            raise KeyError(f"a parameter group needs 'params', found only {sorted(group)}")
        group = dict(group)
        params = group["params"]
        if isinstance(params, set):
            raise TypeError("parameters need an order that stays the same between runs: use a list, not a set")
        params = [params] if isinstance(params, strata.Tensor) else list(params)
        named = sum(isinstance(p, tuple) for p in params)
        if 0 < named < len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if named:
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        for p in params:
            if not isinstance(p, strata.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor; pass the parameters themselves")
        if len({id(p) for p in params}) != len(params):
            raise ValueError("a parameter appears twice in one parameter group")
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in known for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError("either all parameter groups have names for their parameters or none")
        group["params"] = params
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        self._check_group(group)
        self.param_groups.append(group)

    def _state_dtype(self, group, param):
        """The dtype of state with the shape of a parameter."""
        return param.dtype

    def _check_group(self, group):
        """Raises if an option or a parameter of a new group is invalid."""

    _stepped = False  # schedulers warn when they step first
    _pre_hooks = _post_hooks = ()  # dicts once a hook is registered; a subclass may not call __init__
    _state_hooks = ()  # likewise: hooks of state_dict and load_state_dict, by their names
    _numbers = frozenset(("step",))  # names of state that is one number per parameter

    def zero_grad(self, set_to_none=True):
        """Releases the gradients, or sets them to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if set_to_none:
                        p.grad = None
                    else:
                        p.grad = p.grad.detach()
                        p.grad.zero_()

    def step(self, closure=None):
        """One step. A closure, if given, computes the loss and its gradients first; its result is returned."""
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def state_dict(self):
        """State and options as plain dicts and tensors, parameters as numbers in their order: PyTorch's format."""
        self._call_state_hooks("state_dict_pre")
        number = {id(p): i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}
        groups = []
        for g in self.param_groups:
            groups.append(
                {k: v for k, v in g.items() if k != "params"} | {"params": [number[id(p)] for p in g["params"]]}
            )
        state = {number[id(p)]: dict(s) for p, s in self.state.items() if id(p) in number}
        return self._call_state_hooks("state_dict_post", {"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict):
        """Restores state and options saved by state_dict(). Tensors are copied and converted to the parameter's dtype.

        `capturable` and `master_weights` do not change: they determine where and in which dtype state is stored.
        """
        state_dict = self._call_state_hooks("load_state_dict_pre", state_dict)
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has {len(saved)} parameter groups, this optimizer {len(self.param_groups)}"
            )
        by_number, there, dtypes = {}, set(), {}  # there: parameters whose numbers are on their device
        for i, (mine, theirs) in enumerate(zip(self.param_groups, saved, strict=True)):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError(
                    f"loaded state dict has {len(theirs['params'])} parameters in group {i}, this optimizer {len(mine['params'])}"
                )
            by_number.update(zip(theirs["params"], mine["params"], strict=True))
            if mine.get("capturable"):
                there.update(id(p) for p in mine["params"])
            dtypes.update((id(p), self._state_dtype(mine, p)) for p in mine["params"])
        state = defaultdict(dict)
        for number, entries in state_dict["state"].items():
            p = by_number.get(number)
            if p is None:
                raise ValueError(f"loaded state dict has state of parameter {number}, which is in no group")
            place = p.device if id(p) in there else "cpu"
            state[p] = {k: _taken(v, k in self._numbers, p, dtypes[id(p)], place) for k, v in entries.items()}
        groups = []
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            kept = {k: mine[k] for k in ("params", "capturable", "master_weights") if k in mine}
            taken = {k: v for k, v in theirs.items() if k != "master_weights"}
            groups.append({**mine, **taken, **kept})
        self.state, self.param_groups = state, groups
        self._call_state_hooks("load_state_dict_post")

    def register_step_pre_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) before each step; returns a handle with remove()."""
        self._pre_hooks = self._pre_hooks or {}
        return hooks.add(self._pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) after each step; returns a handle with remove()."""
        self._post_hooks = self._post_hooks or {}
        return hooks.add(self._post_hooks, hook)

    def _call_state_hooks(self, when, *state_dict):
        """The hooks of that name, with a state_dict that they may replace where there is one; returns it."""
        for hook in list(self._state_hooks[when].values()) if when in self._state_hooks else ():
            found = hook(self, *state_dict)
            if state_dict and found is not None:
                state_dict = (found,)
        return state_dict[0] if state_dict else None

    def _add_state_hook(self, when, hook, prepend):
        self._state_hooks = self._state_hooks or {}
        return hooks.add(self._state_hooks.setdefault(when, {}), hook, prepend)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer) before state_dict()."""
        return self._add_state_hook("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) after state_dict(); a returned one replaces it."""
        return self._add_state_hook("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) before load_state_dict(); a returned one replaces it."""
        return self._add_state_hook("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer) after load_state_dict()."""
        return self._add_state_hook("load_state_dict_post", hook, prepend)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


_every_pre_hook, _every_post_hook = {}, {}


def register_optimizer_step_pre_hook(hook):
    """Calls hook(optimizer, args, kwargs) before each step of every optimizer; returns a handle with remove()."""
    return hooks.add(_every_pre_hook, hook)


def register_optimizer_step_post_hook(hook):
    """Calls hook(optimizer, args, kwargs) after each step of every optimizer; returns a handle with remove()."""
    return hooks.add(_every_post_hook, hook)


def _with_hooks(step):
    def wrapped(self, *args, **kwargs):
        self._stepped = True
        for hook in [*_every_pre_hook.values(), *(self._pre_hooks and self._pre_hooks.values())]:
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in [*(self._post_hooks and self._post_hooks.values()), *_every_post_hook.values()]:
            hook(self, args, kwargs)
        return result

    wrapped.__doc__, wrapped.__name__, wrapped.__wrapped__ = step.__doc__, step.__name__, step
    return wrapped


def _taken(value, is_number, param, dtype, place):
    """A loaded entry of state in the optimizer's form for `param`; a number is stored in `place`."""
    if isinstance(value, list):
        return [_taken(v, is_number, param, dtype, place) for v in value]
    if not isinstance(value, strata.Tensor):
        return strata.tensor(float(value), device=place) if is_number and value is not None else value
    with strata.no_grad():
        if value.is_sparse:
            return value.detach().clone()
        if not is_number and param.is_floating_point() and value.shape == param.shape:
            taken = strata.empty_like(param, dtype=dtype, requires_grad=False)
            return taken.copy_(value)
        return value.detach().to(place, copy=True) if is_number else value.detach().clone()
