"""Weight norm and spectral norm in their older form, with hooks and the names weight_g, weight_v and weight_orig; use
those of nn.utils.parametrizations in new code."""

from ...autograd import no_grad
from ..parameter import Parameter
from .parametrizations import SpectralNorm, norm_except_dim, rows_of


class _WeightNormHook:
    """Computes <name> from <name>_g and <name>_v before each forward."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def compute(self, module):
        v = getattr(module, self.name + "_v")
        return v * (getattr(module, self.name + "_g") / norm_except_dim(v, self.dim))

    def __call__(self, module, args):
        setattr(module, self.name, self.compute(module))


class _SpectralNormHook:
    """Computes <name> from <name>_orig before each forward; the vectors of the iteration are buffers of the module."""

    def __init__(self, name, norm):
        self.name, self.norm = name, norm

    def compute(self, module, training):
        norm = self.norm.train(training)
        norm._u, norm._v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        return norm(getattr(module, self.name + "_orig"))

    def __call__(self, module, args):
        setattr(module, self.name, self.compute(module, module.training))


def _weight(module, name, what, kind):
    if any(isinstance(h, kind) and h.name == name for h in module._forward_pre_hooks.values()):
        raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"{what}: {type(module).__name__} has no parameter '{name}'")
    return weight


def _found(module, name, what, kind):
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return key, hook
    raise ValueError(f"{what} of '{name}' not found in {module}")


def weight_norm(module, name="weight", dim=0):
    """Trains the length (<name>_g) and the direction (<name>_v) of a weight separately."""
    weight, hook = _weight(module, name, "weight_norm", _WeightNormHook), _WeightNormHook(name, dim)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module, name="weight"):
    """Makes the weight a plain parameter again."""
    key, hook = _found(module, name, "weight_norm", _WeightNormHook)
    with no_grad():
        weight = hook.compute(module).detach()
    for old in (name, name + "_g", name + "_v"):
        delattr(module, old)
    del module._forward_pre_hooks[key]
    module.register_parameter(name, Parameter(weight))
    return module


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight (<name>_orig) by its largest singular value."""
    weight = _weight(module, name, "spectral_norm", _SpectralNormHook)
    norm = SpectralNorm(weight, n_power_iterations, rows_of(module) if dim is None else dim, eps)
    if weight.dim() < 2:
        raise ValueError(f"spectral_norm: the weight must have at least 2 dimensions, found shape {list(weight.shape)}")
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", norm._u)
    module.register_buffer(name + "_v", norm._v)
    module.register_forward_pre_hook(_SpectralNormHook(name, norm))
    return module


def remove_spectral_norm(module, name="weight"):
    """Makes the weight a plain parameter again."""
    key, hook = _found(module, name, "spectral_norm", _SpectralNormHook)
    with no_grad():
        weight = hook.compute(module, False).detach()
    for old in (name, name + "_u", name + "_v", name + "_orig"):
        delattr(module, old)
    del module._forward_pre_hooks[key]
    module.register_parameter(name, Parameter(weight))
    return module
