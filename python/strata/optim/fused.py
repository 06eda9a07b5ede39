"""Fused: the base of the optimizers whose step is one op over all parameters of a group. The library's table of rules has the
state of each optimizer and the options of its op; the classes are generated from the same records."""

import strata
from strata import _C

from .optimizer import Optimizer, flat_options, loss_of, no_choice
from .sparse_adam import step_sparse

_RULES = _C._optimizer_rules()


def _real(tensors):
    """Complex tensors as pairs of real numbers, which a step treats as parameters of their own."""
    return [strata.view_as_real(t.detach()) if t.is_complex() else t for t in tensors]


def fixed(numbers):
    """A list as a tuple; other types are rejected by name later."""
    return tuple(numbers) if isinstance(numbers, list) else numbers


class Fused(Optimizer):
    """Base of the optimizers in the library's table.

    With `capturable=True` step counts are on the parameters' device, so that a graph can capture step(). With
    `master_weights=True` parameters of 16 bits have float32 copies, which the steps change: the state `master_param`. The
    rest of their state is float32 too, and the parameters are the copies, rounded.
    """

    _any_complex = False

    def __init__(self, params, switches, **options):
        if self._numbers:
            options["capturable"] = bool(switches.pop("capturable", False))
        if switches.pop("master_weights", False):
            options["master_weights"] = True
        no_choice(type(self).__name__, switches)
        super().__init__(params, options)

    def _state_dtype(self, group, param):
        has_master = group.get("master_weights") and param.dtype in (strata.float16, strata.bfloat16)
        return strata.float32 if has_master else param.dtype

    def __init_subclass__(cls, rule=None, **kwargs):
        super().__init_subclass__(**kwargs)
        if rule:  # custom subclasses keep their parent's
            cls._rule, cls._rule_name = _RULES[rule], rule
            cls._op = staticmethod(_C.ops[cls._rule["op"]])
            cls._numbers = frozenset(name for name, is_number, *_ in cls._rule["state"] if is_number)

    def _check_group(self, group):
        options = flat_options(group)
        for name in self._rule["options"]:
            if name not in options:
                raise TypeError(f"{type(self).__name__}: {name} must be a number, found {group.get(name)!r}")
        _C._check_options(type(self).__name__, options)
        self._any_complex = self._any_complex or any(p.is_complex() for p in group["params"])
        for p in group["params"] if self._rule["matrices_only"] else ():
            if p.ndim != 2:
                raise ValueError(
                    f"{type(self).__name__} only supports 2D parameters, found a parameter of shape {list(p.shape)}; "
                    "give the others to another optimizer, such as AdamW"
                )

    def step(self, closure=None):
        """One step. A closure, if given, computes the loss and its gradients first; its result is returned."""
        loss = loss_of(closure)
        with strata.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                sparse = [p for p in params if p.grad.is_sparse]
                if sparse:
                    params = [p for p in params if not p.grad.is_sparse]
                    for p in sparse:
                        step_sparse(self, self._rule_name, group, p)
                if self._rule["first"]:  # parameters with new state take a separate pass
                    name = self._rule["state"][0][0]
                    known = [self.state.get(p, {}).get(name) is not None for p in params]  # before the pass creates it
                    self._update(group, [p for p, old in zip(params, known, strict=True) if not old], first=True)
                    params = [p for p, old in zip(params, known, strict=True) if old]
                self._update(group, params)
        return loss

    def _update(self, group, params, **first):
        if not params:
            return
        options = flat_options(group)
        lists, new, stepped = [], [], []
        for p in params:
            if self._state_dtype(group, p) == p.dtype:
                stepped.append(p)
                continue
            master = self.state.get(p, {}).get("master_param")
            if master is None:
                _C._check_new_state(type(self).__name__, p.device)
                master = p.detach().float()
                new.append((p, "master_param", master))
            stepped.append(master)
        for name, is_number, start, option, needs in self._rule["state"]:
            values = []
            lists.append(values)
            if needs is not None and not options[needs]:
                continue
            for p, like in zip(params, stepped, strict=True):
                value = self.state.get(p, {}).get(name)
                if value is None:
                    _C._check_new_state(type(self).__name__, p.device)
                    begin = float(start if option is None else options[option])
                    if is_number:
                        dtype = strata.float64 if p.dtype == strata.float64 else strata.float32
                        value = strata.full(
                            (), begin, dtype=dtype, device=p.device if group.get("capturable") else "cpu"
                        )
                    else:
                        start_value = complex(begin, begin) if like.is_complex() else begin
                        value = strata.full_like(like, start_value, requires_grad=False)
                    new.append((p, name, value))
                values.append(value)
        tensors = [stepped, [p.grad for p in params], *lists]
        if self._any_complex:
            tensors = [_real(values) for values in tensors]
        self._op(*tensors, *(options[name] for name in self._rule["options"]), **first)
        for p, master in zip(params, stepped, strict=True):
            if master is not p:
                p.copy_(master)
        for p, name, value in new:  # new state is kept only if the step succeeded
            self.state[p][name] = value
