"""Built-in parametrizations: weight norm, spectral norm and orthogonal matrices."""

from ... import _C
from ...autograd import no_grad
from ..module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
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
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = _op["randn"]((size,), dtype=matrix.dtype, device=matrix.device)
                self.register_buffer(name, self._unit(start))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    def _unit(self, vector):
        return vector / vector.norm().clamp(min=self.eps)

    @no_grad()
    def _iterate(self, matrix, times):
        for _ in range(times):
            self._u.copy_(self._unit(matrix.mv(self._v)))
            self._v.copy_(self._unit(matrix.T.mv(self._u)))

    def forward(self, weight):
        if weight.dim() == 1:
            return self._unit(weight)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # two forward passes may precede one backward
        return weight / u.dot(matrix.mv(v))  # mv: under autocast, matmul would lower it on the CPU too

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


def _orthogonal_factor(matrix):
    """The orthogonal factor of a QR decomposition, with signs that leave an orthogonal matrix as it is."""
    reflectors, tau = _op["geqrf"](matrix)
    return _op["linalg.householder_product"](reflectors, tau) * reflectors.diagonal(0, -2, -1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Orthogonal columns (rows, if it is wide) from a triangle of free numbers, by one of three maps."""

    def __init__(self, orthogonal_map, use_trivialization):
        super().__init__()
        self.map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)
        self.use_trivialization = use_trivialization

    def forward(self, X):
        wide = X.shape[-2] < X.shape[-1]
        X = X.mT if wide else X
        n, k = X.shape[-2:]
        if self.map == "householder":
            A = X.tril(-1)
            tau = 2.0 / (1.0 + (A * A).sum(-2))
            Q = _op["linalg.householder_product"](A, tau) * X.diagonal(0, -2, -1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = _op["cat"]([X, X.new_zeros((*X.shape[:-1], n - k))], -1)
            A = X - X.mH
            if self.map == "matrix_exp":
                Q = _op["linalg.matrix_exp"](A)
            else:
                one = _op["eye"](n, dtype=A.dtype, device=A.device)
                Q = _op["linalg.solve"](one - 0.5 * A, one + 0.5 * A)
            Q = Q[..., :k]
        if self.use_trivialization:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q):
        wide = Q.shape[-2] < Q.shape[-1]
        Q = (Q.mT if wide else Q).detach()
        n, k = Q.shape[-2:]
        if not self.use_trivialization:
            if self.map != "householder":
                raise NotImplementedError(
                    "orthogonal: assigning a weight needs use_trivialization=True for matrix_exp and cayley"
                )
            A, _ = _op["geqrf"](Q)
            diagonal = A.diagonal(0, -2, -1)
            diagonal.sign_()
            diagonal[diagonal == 0.0] = 1.0
            return A.mT if wide else A
        full = Q if n == k else _op["cat"]([Q, Q.new_empty((*Q.shape[:-1], n - k)).normal_()], -1)
        self.base = _orthogonal_factor(full)
        start = _op["zeros_like"](Q)
        start.diagonal(0, -2, -1).fill_(-1.0)
        return start.mT if wide else start


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Makes a parameter an orthogonal matrix, of orthonormal rows or columns if it is not square.

    orthogonal_map: "matrix_exp" (for square matrices), "cayley" or "householder" (for others)."""
    weight = getattr(module, name, None)
    if not isinstance(weight, _C.Tensor):
        raise ValueError(f"orthogonal: the module has no parameter or buffer {name!r}")
    if weight.dim() < 2:
        raise ValueError(f"orthogonal: expected a matrix or batch of matrices, got {weight.dim()} dimensions")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrize.register_parametrization(module, name, _Orthogonal(orthogonal_map, use_trivialization), unsafe=True)
    return module
