"""Top-level functions of PyTorch that few programs call; strata.<name> finds them when they are first used."""

import os

import strata

from .. import _C


@_C._overridable
def _assert(condition, message):
    """An assert statement that fx can trace."""
    assert condition, message


def typename(obj):
    """The full name of an object's type."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    kind = type(obj)
    home = kind.__module__
    return kind.__qualname__ if home in (None, "builtins") else f"{home}.{kind.__qualname__}"


def get_num_interop_threads():
    """1: ops run one after another."""
    return 1


def set_num_interop_threads(threads):
    """Accepted: ops run one after another, on get_num_threads() threads each."""


def set_flush_denormal(mode):
    """False: denormal numbers are always kept."""
    return False


def is_same_size(input, other):
    """Whether the shapes are equal."""
    return input.shape == other.shape


def is_signed(input):
    """Whether the dtype is signed."""
    return input.is_signed()


def is_inference(input):
    """Whether it was made under inference_mode()."""
    return input.is_inference()


def get_device(input):
    """The device number, -1 on the CPU."""
    return input.get_device()


def is_conj(input):
    """False: conjugates are computed at once."""
    return False


def is_neg(input):
    """False: negative views are computed at once."""
    return False


def is_distributed(input):
    """False."""
    return False


def range(start=0, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """Like arange(), including the end."""
    if end is None:
        start, end = 0, start
    dtype = dtype or _C.get_default_dtype()
    count = int((end - start) / step) + 1
    return (strata.arange(count, device=device) * step + start).to(dtype).requires_grad_(requires_grad)


def is_anomaly_enabled():
    """Whether detect_anomaly() is on."""
    return _C.is_anomaly_enabled()


def set_anomaly_enabled(mode, check_nan=True):
    """Turns the detection of anomalies on or off."""
    _C._set_anomaly_enabled(mode)


def get_deterministic_debug_mode():
    """0, or 1 with warn_only, or 2: the setting of use_deterministic_algorithms()."""
    if not strata.are_deterministic_algorithms_enabled():
        return 0
    return 1 if strata.is_deterministic_algorithms_warn_only_enabled() else 2


def set_deterministic_debug_mode(debug_mode):
    """Stores the setting: every kernel is deterministic anyway."""
    level = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)
    strata.use_deterministic_algorithms(level > 0, warn_only=level == 1)


def set_warn_always(value):
    """Accepted: Python's filters decide how often a warning is shown."""


def is_warn_always_enabled():
    """False: Python's filters decide how often a warning is shown."""
    return False


def compiled_with_cxx11_abi():
    """True."""
    return True


def get_file_path(*parts):
    """A path below the package."""
    return os.path.join(os.path.dirname(strata.__file__), *parts)


def get_device_module(device=None):
    """strata.cuda, strata.vgpu or strata.cpu, by the type of a device."""
    kind = _C.device(device).type if device is not None else "cuda" if strata.cuda.is_available() else "cpu"
    return getattr(strata, kind)


def poisson(input, generator=None):
    """Draws from Poisson distributions with the rates of input, on the CPU."""
    if input.device.type != "cpu":
        raise NotImplementedError(
            f"poisson: there is no kernel for device {input.device}; draw on the CPU and move the result"
        )
    import numpy as np

    seed = int(_C.ops["randint"](0, 2**31 - 1, (1,), generator=generator).item())
    drawn = np.random.default_rng(seed).poisson(input.detach().double().numpy())
    return _C.tensor(drawn, dtype=input.dtype)


def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of the q largest singular values of a matrix, its columns centered first."""
    q = min(6, *A.shape[-2:]) if q is None else q
    if center:
        A = A - A.mean(dim=-2, keepdim=True)
    return svd_lowrank(A, q)


def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of the q largest singular values of a matrix."""
    if M is not None:
        A = A - M
    u, s, vh = strata.linalg.svd(A, full_matrices=False)
    return u[..., :q], s[..., :q], vh.mH[..., :q]


def norm_except_dim(v, pow=2, dim=0):
    """Norms over all dimensions except one."""
    if dim == -1:
        return v.norm(pow)
    dims = [d for d in builtins_range(v.dim()) if d != dim]
    return strata.linalg.vector_norm(v, pow, dims, keepdim=True)


def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """Slopes between neighbors along each dimension: central inside; one-sided, of two or three points, at the ends."""
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, found {edge_order}")
    dims = [*builtins_range(input.dim())] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    results = []
    for d, step in zip(dims, steps, strict=True):
        n = input.shape[d]
        if n <= edge_order:
            raise RuntimeError(f"gradient: expected at least {edge_order + 1} elements along dimension {d}, found {n}")
        places = (
            step.to(input.dtype)
            if isinstance(step, _C.Tensor) and step.dim()
            else strata.arange(n, device=input.device) * step
        )
        gaps = places.diff().view([-1 if k == d % input.dim() else 1 for k in builtins_range(input.dim())])
        slopes = input.diff(dim=d) / gaps
        before, after = gaps.narrow(d, 0, n - 2), gaps.narrow(d, 1, n - 2)
        inner = (slopes.narrow(d, 0, n - 2) * after + slopes.narrow(d, 1, n - 2) * before) / (before + after)
        first, last = slopes.narrow(d, 0, 1), slopes.narrow(d, n - 2, 1)
        if edge_order == 2:  # the parabola through three points
            near, far = gaps.narrow(d, 0, 1), gaps.narrow(d, 1, 1)
            first = first + (first - slopes.narrow(d, 1, 1)) * near / (near + far)
            near, far = gaps.narrow(d, n - 2, 1), gaps.narrow(d, n - 3, 1)
            last = last + (last - slopes.narrow(d, n - 3, 1)) * near / (near + far)
        results.append(strata.cat([first, inner, last], d))
    return tuple(results)


builtins_range = __builtins__["range"] if isinstance(__builtins__, dict) else __builtins__.range

# Functions that torch has under the names of torch.nn.functional. Some take no keyword of the same meaning there.
_FUNCTIONAL = (
    "embedding_bag",
    "poisson_nll_loss",
    "feature_alpha_dropout",
    "hinge_embedding_loss",
    "cosine_embedding_loss",
    "margin_ranking_loss",
    "triplet_margin_loss",
    "alpha_dropout",
)


def kl_div(input, target, reduction="mean", *, log_target=False):
    """input: log probabilities; target: probabilities, or their logarithms with log_target."""
    names = {0: "none", 1: "mean", 2: "sum"}
    return strata.nn.functional.kl_div(input, target, reduction=names.get(reduction, reduction), log_target=log_target)


def embedding(weight, input, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """Rows of weight. The order of the arguments is the opposite of nn.functional.embedding's."""
    padding = None if padding_idx < 0 else padding_idx
    return strata.nn.functional.embedding(input, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    """Normalizes each channel; see nn.functional.batch_norm."""
    return strata.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True):
    """Normalizes each channel of each sample; see nn.functional.instance_norm."""
    return strata.nn.functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def view_copy(input, size, *, out=None):
    """A copy in another shape, or of the same bytes in another dtype."""
    made = input.view(size) if isinstance(size, _C.dtype) else input.reshape(size)
    return made.clone() if out is None else out.copy_(made)


def split_with_sizes_copy(input, split_sizes, dim=0, *, out=None):
    """Copies of pieces of the given sizes; with out they are written to those tensors."""
    pieces = input.split_with_sizes(split_sizes, dim)
    if out is None:
        return tuple(p.clone() for p in pieces)
    if len(out) != len(pieces):
        raise RuntimeError(f"split_with_sizes_copy: expected {len(pieces)} tensors in out, got {len(out)}")
    for target, piece in zip(out, pieces, strict=True):
        target.copy_(piece)
    return None


def _chunk_cat(tensors, dim, num_chunks, *, out=None):
    """Each tensor in chunks along dim, the last filled up with zeros, flattened behind dim; those of all tensors side by side."""
    if num_chunks < 1:
        raise RuntimeError(f"_chunk_cat expects positive num_chunks, got {num_chunks}")
    pieces = []
    for t in tensors:
        d = dim + t.dim() if dim < 0 else dim
        size = -(-t.shape[d] // num_chunks)
        missing = size * num_chunks - t.shape[d]
        if missing:
            t = strata.cat([t, t.new_zeros((*t.shape[:d], missing, *t.shape[d + 1 :]))], d)
        pieces.append(t.reshape(*t.shape[:d], num_chunks, -1))
    made = strata.cat(pieces, -1)
    return made if out is None else out.copy_(made)


def dropout_(input, p, train):
    """Zeroes elements with probability p, in place."""
    return input.copy_(strata.nn.functional.dropout(input, p, train)) if train else input


def __getattr__(name):
    if name in _FUNCTIONAL:
        return getattr(strata.nn.functional, name)
    raise AttributeError(f"module 'strata.torch.functions' has no attribute {name!r}")


def _failed(error, cond, message):
    """Raises the error unless the condition is true; the message is a function that returns it."""
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError(f"message must be a callable, found {type(message).__name__}")
    raise error("Expected cond to be True, but got False" if message is None else str(message()))


def _check(cond, message=None):
    """Raises RuntimeError unless the condition is true."""
    _failed(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """Raises IndexError unless the condition is true."""
    _failed(IndexError, cond, message)


def _check_value(cond, message=None):
    """Raises ValueError unless the condition is true."""
    _failed(ValueError, cond, message)


def _check_type(cond, message=None):
    """Raises TypeError unless the condition is true."""
    _failed(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """Raises NotImplementedError unless the condition is true."""
    _failed(NotImplementedError, cond, message)


def _check_with(error_type, cond, message=None):
    """Raises an error of the given type unless the condition is true."""
    _failed(error_type, cond, message)


def _check_tensor_all(cond, message=None):
    """Raises RuntimeError unless all elements are true."""
    _failed(RuntimeError, bool(cond.all()), message)


def _check_is_size(i, message=None, *, max=None):
    """Raises RuntimeError unless the number can be a size."""
    _failed(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _assert_async(input, message=""):
    """Raises RuntimeError unless the one element is true. It waits for the device."""
    if not input.item():
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _shape_as_tensor(input):
    """The shape as a tensor of int64."""
    return strata.tensor(list(input.shape), dtype=strata.int64)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax from its result."""
    scaled = grad_output * output
    return (scaled - output * scaled.sum(dim, keepdim=True)).to(input_dtype)


def as_subclass(input, cls):
    """The tensor as an object of a subclass, which shares its memory."""
    return _C._as_subclass(input, cls)  # not the method, which a program may replace by one that calls this
