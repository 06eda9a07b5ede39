"""Pruning: a parameter becomes <name>_orig times the buffer <name>_mask, recomputed before every forward."""

from ... import _C
from ..parameter import Parameter

__all__ = [
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class _Pruned:
    """The hook of a pruned parameter: sets the attribute to its masked value."""

    def __init__(self, name):
        self.name = name

    def __call__(self, module, inputs):
        setattr(module, self.name, self.value(module))

    def value(self, module):
        return getattr(module, f"{self.name}_orig") * getattr(module, f"{self.name}_mask")


def _hook_of(module, name):
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, _Pruned) and hook.name == name:
            return number, hook
    return None, None


def custom_from_mask(module, name, mask):
    """Prunes where the mask is zero; a parameter that is pruned already is pruned further."""
    number, hook = _hook_of(module, name)
    if hook is None:
        original = getattr(module, name)
        if mask.shape != original.shape:
            raise ValueError(f"prune: the mask has shape {list(mask.shape)}, {name} has {list(original.shape)}")
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask.to(original.dtype))
        hook = _Pruned(name)
        module.register_forward_pre_hook(hook)
    else:
        setattr(
            module, f"{name}_mask", getattr(module, f"{name}_mask") * mask.to(getattr(module, f"{name}_mask").dtype)
        )
    setattr(module, name, hook.value(module))
    return module


def _count(amount, total):
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
        raise ValueError(f"prune: amount must be a share from 0 to 1 or a number of elements, found {amount!r}")
    if isinstance(amount, float) and amount > 1:
        raise ValueError(f"prune: a share is between 0 and 1, found {amount}")
    number = round(amount * total) if isinstance(amount, float) else amount
    if number > total:
        raise ValueError(f"prune: amount={amount} should be smaller than the number of elements to prune={total}")
    return number


def _kept(module, name):
    """The mask of elements that are not pruned yet, flat."""
    mask = getattr(module, f"{name}_mask", None)
    return (_C.ops["ones_like"](getattr(module, name).detach()) if mask is None else mask.detach()).flatten()


def _without(scores, kept, amount):
    """A mask without the `amount` smallest scores among those kept."""
    places = kept.nonzero().flatten()
    number = _count(amount, places.numel())
    mask = kept.clone()
    if number:
        smallest = scores.index_select(0, places).topk(number, largest=False).indices
        mask.index_fill_(0, places.index_select(0, smallest), 0)
    return mask


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the elements of smallest absolute value."""
    tensor = getattr(module, name).detach() if importance_scores is None else importance_scores
    return custom_from_mask(
        module, name, _without(tensor.abs().flatten(), _kept(module, name), amount).view(tensor.shape)
    )


def random_unstructured(module, name, amount):
    """Prunes random elements."""
    tensor = getattr(module, name).detach()
    scores = _C.ops["rand_like"](tensor).flatten()
    return custom_from_mask(module, name, _without(scores, _kept(module, name), amount).view(tensor.shape))


def _structured(module, name, amount, dim, scores):
    shape = getattr(module, name).shape
    whole = _kept(module, name).view(shape)
    alive = whole.movedim(dim, 0).reshape(shape[dim], -1).amax(1)
    mask = _without(scores, alive, amount).view([-1 if d == dim % len(shape) else 1 for d in range(len(shape))])
    return custom_from_mask(module, name, whole * mask)


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the slices along dim of smallest n-norm."""
    tensor = getattr(module, name).detach() if importance_scores is None else importance_scores
    rows = tensor.movedim(dim, 0).reshape(tensor.shape[dim], -1)
    return _structured(module, name, amount, dim, rows.norm(n, 1))


def random_structured(module, name, amount, dim):
    """Prunes random slices along dim."""
    return _structured(module, name, amount, dim, _C.ops["rand"](getattr(module, name).shape[dim]))


def identity(module, name):
    """Makes a parameter pruned, without pruning an element."""
    return custom_from_mask(module, name, _C.ops["ones_like"](getattr(module, name).detach()))


class L1Unstructured:
    """The method of l1_unstructured, for global_unstructured."""

    @staticmethod
    def scores(tensor):
        return tensor.abs().flatten()


class RandomUnstructured:
    """The method of random_unstructured, for global_unstructured."""

    @staticmethod
    def scores(tensor):
        return _C.ops["rand_like"](tensor).flatten()


def global_unstructured(parameters, pruning_method, importance_scores=None, *, amount):
    """Prunes several parameters, given as (module, name), as if they were one."""
    parameters = list(parameters)
    given = importance_scores or {}
    tensors = [given.get((m, n), getattr(m, n)).detach() for m, n in parameters]
    scores = _C.ops["cat"]([pruning_method.scores(t) for t in tensors])
    mask = _without(scores, _C.ops["cat"]([_kept(m, n) for m, n in parameters]), amount)
    pieces = mask.split([t.numel() for t in tensors])
    for (module, name), piece, tensor in zip(parameters, pieces, tensors, strict=True):
        custom_from_mask(module, name, piece.view(tensor.shape))


def is_pruned(module):
    """Whether the module or one below it has a pruned parameter."""
    return any(isinstance(h, _Pruned) for m in module.modules() for h in m._forward_pre_hooks.values())


def remove(module, name):
    """Makes pruning permanent: the parameter has its masked value."""
    number, hook = _hook_of(module, name)
    if hook is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    original = getattr(module, f"{name}_orig")
    value = hook.value(module).detach()
    del module._forward_pre_hooks[number]
    del module._parameters[f"{name}_orig"]
    del module._buffers[f"{name}_mask"]
    module.__dict__.pop(name, None)
    original.data = value
    module.register_parameter(name, original if isinstance(original, Parameter) else Parameter(value))
    return module
