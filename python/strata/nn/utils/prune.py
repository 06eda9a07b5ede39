"""Pruning: a parameter becomes <name>_orig times the buffer <name>_mask, recomputed before every forward."""

from ... import _C
from ..parameter import Parameter

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "RandomStructured",
    "RandomUnstructured",
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
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_unstructured(module, name, amount):
    """Prunes random elements."""
    RandomUnstructured.apply(module, name, amount)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the slices along dim of smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes random slices along dim."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def identity(module, name):
    """Makes a parameter pruned, without pruning an element."""
    return custom_from_mask(module, name, _C.ops["ones_like"](getattr(module, name).detach()))


def global_unstructured(parameters, pruning_method, importance_scores=None, *, amount):
    """Prunes several parameters, given as (module, name), as if they were one."""
    parameters = list(parameters)
    given = importance_scores or {}
    tensors = [given.get((m, n), getattr(m, n)).detach() for m, n in parameters]
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"prune: expected an unstructured method, found one of type {pruning_method.PRUNING_TYPE!r}")
    kept = _C.ops["cat"]([_kept(m, n) for m, n in parameters])
    mask = pruning_method(amount).compute_mask(_C.ops["cat"]([t.flatten() for t in tensors]), kept)
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


# --- methods as classes -----------------------------------------------------------------------------------------------------


class BasePruningMethod:
    """A method of pruning: a subclass defines PRUNING_TYPE and compute_mask(t, default_mask)."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """The mask for scores t, where default_mask has the elements that are left."""
        raise NotImplementedError

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes a parameter of a module by this method, made from the arguments, and returns the method."""
        method = cls(*args, **kwargs)
        tensor = getattr(module, name).detach() if importance_scores is None else importance_scores
        method._tensor_name = name
        custom_from_mask(module, name, method.compute_mask(tensor, _kept(module, name).view(tensor.shape)))
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """The tensor with the pruned elements set to zero."""
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, _C.ops["ones_like"](t) if default_mask is None else default_mask)


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t, default_mask):
        return default_mask.clone()


class RandomUnstructured(BasePruningMethod):
    """Prunes random elements."""

    def __init__(self, amount):
        self.amount = amount

    def compute_mask(self, t, default_mask):
        return _without(_C.ops["rand_like"](t).flatten(), default_mask.flatten(), self.amount).view(t.shape)


class L1Unstructured(RandomUnstructured):
    """Prunes the elements of smallest absolute value."""

    def compute_mask(self, t, default_mask):
        return _without(t.abs().flatten(), default_mask.flatten(), self.amount).view(t.shape)


class RandomStructured(BasePruningMethod):
    """Prunes random slices along dim."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        self.amount, self.dim = amount, dim

    def _scores(self, slices):
        return _C.ops["rand"](len(slices))

    def compute_mask(self, t, default_mask):
        slices = t.movedim(self.dim, 0).reshape(t.shape[self.dim], -1)
        alive = default_mask.movedim(self.dim, 0).reshape(t.shape[self.dim], -1).amax(1)
        shape = [-1 if d == self.dim % t.dim() else 1 for d in range(t.dim())]
        return default_mask * _without(self._scores(slices), alive, self.amount).view(shape)


class LnStructured(RandomStructured):
    """Prunes the slices along dim of smallest n-norm."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, slices):
        return slices.norm(self.n, 1)


class CustomFromMask(BasePruningMethod):
    """Prunes where the mask is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(default_mask.dtype)
