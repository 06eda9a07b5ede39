"""Functions of functions: gradients, Jacobians, and modules as functions of their parameters."""

from . import _C
from ._func_transforms import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with the given tensors instead of the named parameters and buffers, which do not change.

    Gradients go to the tensors given. `args` is a tuple, or the only argument. With tie_weights, a tensor given for one name of a
    parameter that has several is used for all of them; with strict, exactly all names must be given.

    >>> fc = strata.nn.Linear(2, 1)
    >>> strata.func.functional_call(fc, {"weight": strata.ones(1, 2), "bias": strata.zeros(1)}, strata.tensor([1.0, 2.0]))
    tensor([3.])
    """
    given = _merged(parameter_and_buffer_dicts)
    places = {}  # name: (table of the module that owns it, name there)
    for path, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    places[f"{path}.{name}" if path else name] = table, name
    if strict:
        _check_names(module, given, places)
    new = {name: t for name, t in given.items() if name in places}
    if tie_weights:
        by_tensor = {id(places[name][0][places[name][1]]): t for name, t in new.items()}
        new = {name: by_tensor[id(t[key])] for name, (t, key) in places.items() if id(t[key]) in by_tensor} | new
    before = [(*places[name], places[name][0][places[name][1]]) for name in new]
    try:
        for name, tensor in new.items():
            table, key = places[name]
            table[key] = tensor
        return module(*(() if args is None else args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for table, key, tensor in before:
            table[key] = tensor


def replace_all_batch_norm_modules_(root):
    """Turns the running statistics of all batch norms off, as vmap() over a batch norm in training needs; returns root."""
    from .nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def _merged(given):
    dicts = [given] if isinstance(given, dict) else given
    if not isinstance(dicts, (list, tuple)) or not all(isinstance(d, dict) for d in dicts):
        raise ValueError(f"functional_call: expected a dict or a list of dicts, got {type(given).__name__}")
    merged = {}
    for part in dicts:
        twice = sorted(merged.keys() & part.keys())
        if twice:
            raise ValueError(f"functional_call: {twice} appear in several of the dicts")
        merged.update(part)
    for name, tensor in merged.items():
        if not isinstance(tensor, _C.Tensor):
            raise TypeError(f"functional_call: '{name}' must be a Tensor, got {type(tensor).__name__}")
    return merged


def _check_names(module, given, places):
    lines = []
    for what, names in (("Unexpected", given.keys() - places.keys()), ("Missing", places.keys() - given.keys())):
        if names:
            lines.append(f"{what} key(s): " + ", ".join(f"'{n}'" for n in sorted(names)) + ".")
    if lines:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(lines))
