"""Built-in parametrizations: weight norm and spectral norm."""

from ... import _C
from ...autograd import no_grad
from ..module import Module
from . import parametrize

__all__ = ["spectral_norm", "weight_norm"]
_op = _C.ops


def norm_except_dim(v, dim):
    """The length of each slice of v along dim, in a shape that broadcasts; of all of v if dim is None or -1."""
    if dim is None or dim == -1:
        return v.norm()
    if not -v.dim() <= dim < v.dim():
        raise IndexError(f"weight_norm: dim {dim} is out of range for a tensor of {v.dim()} dimensions")
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return _op["linalg.vector_norm"](v, 2, others, True) if others else v.abs()


class _WeightNorm(Module):
    """g * v / |v|."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, g, v):
        return v * (g / norm_except_dim(v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


class SpectralNorm(Module):
    """A weight divided by its largest singular value, which is tracked by power iteration in training mode."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.dim()}, {weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.n_power_iterations, self.eps = dim % weight.dim(), n_power_iterations, eps
        if weight.dim() > 1:
            matrix = self._matrix(weight.detach())
            self.register_buffer("_u", self._unit(_op["randn"]((matrix.shape[0],), dtype=matrix.dtype)))
            self.register_buffer("_v", self._unit(_op["randn"]((matrix.shape[1],), dtype=matrix.dtype)))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    def _unit(self, vector):
        return vector / vector.norm().clamp(min=self.eps)

    @no_grad()
    def _iterate(self, matrix, times):
        for _ in range(times):
            self._u.copy_(self._unit(matrix @ self._v))
            self._v.copy_(self._unit(matrix.T @ self._u))

    def forward(self, weight):
        if weight.dim() == 1:
            return self._unit(weight)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # two forward passes may precede one backward
        return weight / u.dot(matrix @ v)

    def right_inverse(self, value):
        return value


def weight_norm(module, name="weight", dim=0):
    """Trains the length and the direction of a weight separately: g * v / |v|, with a length per slice along dim."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


def rows_of(module):
    """The output dimension of a module's weight."""
    return 1 if type(module).__name__.startswith("ConvTranspose") else 0


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight by its largest singular value, so that the layer's Lipschitz constant is about 1."""
    weight = getattr(module, name, None)
    if not isinstance(weight, _C.Tensor):
        raise ValueError(f"Module '{type(module).__name__}' has no parameter or buffer with name '{name}'")
    norm = SpectralNorm(weight, n_power_iterations, rows_of(module) if dim is None else dim, eps)
    parametrize.register_parametrization(module, name, norm)
    return module
