"""Functions for generated modules: argument conversions, and the functions that expressions of records may use.

C++ has the same in src/nn/arguments.h.
"""

import math

from .. import _C
from .parameter import Parameter

prod = math.prod


def tuple_of(value, n, name):
    """n numbers; a single one is repeated n times."""
    if isinstance(value, (tuple, list)):
        if len(value) != n and len(value) != 1:
            raise ValueError(f"{name}: expected one integer or a list of {n}, got {len(value)}")
        return tuple(value) * (n if len(value) == 1 else 1)
    return (value,) * n


def sizes_of(value):
    """A shape; a single number is one dimension."""
    return (value,) if isinstance(value, int) else tuple(value)


def floats_of(value):
    """Scale factors as floats; None stays."""
    if value is None:
        return None
    return tuple(map(float, value)) if isinstance(value, (tuple, list)) else float(value)


def any_but(value, items):
    """Whether any item differs from value; a string always does."""
    return isinstance(items, str) or any(i != value for i in items)


def conv_bound(fan_in):
    """The bound of PyTorch's uniform biases; 0 without inputs."""
    return 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0


def valid_padding(padding, stride):
    """Strings other than "same" and "valid", and "same" with a stride, are invalid."""
    if not isinstance(padding, str):
        return True
    return padding == "valid" or (padding == "same" and not any_but(1, stride))


def padding_sides(padding, kernel_size, dilation):
    """Arguments of pad() that replace the padding of a convolution: pairs, last dimension first."""
    sides = []
    for i in reversed(range(len(kernel_size))):
        if isinstance(padding, str):
            total = dilation[i] * (kernel_size[i] - 1) if padding == "same" else 0
        else:
            total = 2 * padding[i]
        sides += [total // 2, total - total // 2]
    return sides


def wrapped_index(index, count):
    """A padding index counted from the front."""
    if index is None:
        return None
    if not -count <= index < count:
        raise ValueError(f"padding_idx must be within num_embeddings: got {index} of {count}")
    return index + count if index < 0 else index


def zero_row(weight, row):
    """Zeroes a row of a table, if there is one to zero."""
    if row is not None:
        weight.detach()[row].zero_()


def batch_norm_ranks(spatial):
    """Valid numbers of dimensions for a batch norm over `spatial` dimensions."""
    return [2, 3] if spatial == 1 else [spatial + 2]


def fitting_output_padding(input, output_size, stride, padding, kernel_size, dilation):
    """The output padding with which a transposed convolution gives output_size."""
    n = len(kernel_size)
    if len(output_size) not in (n, n + 1, n + 2):
        raise ValueError(f"output_size must have {n} or {n + 2} elements, got {len(output_size)}")
    result = []
    for d, wanted in enumerate(output_size[len(output_size) - n :]):
        smallest = (input.shape[d - n] - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel_size[d] - 1) + 1
        if not smallest <= wanted < smallest + stride[d]:
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes of dimension {d} range from {smallest} to "
                f"{smallest + stride[d] - 1}"
            )
        result.append(wanted - smallest)
    return result


def legacy_reduction(size_average, reduce, reduction):
    """reduction, unless one of its two deprecated predecessors is given."""
    if size_average is None and reduce is None:
        if reduction not in ("none", "mean", "sum", "batchmean"):
            raise ValueError(f"{reduction} is not a valid value for reduction")
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


class FromPretrained:
    """Embedding tables from given rows."""

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, **options):
        """A module with the given two-dimensional tensor as its weight."""
        if embeddings.dim() != 2:
            raise ValueError(f"from_pretrained: embeddings must be 2-dimensional, got shape {list(embeddings.shape)}")
        rows, columns = embeddings.shape
        module = cls(rows, columns, **options)
        module.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return module


class RunningStats:
    """Norms that may track the mean and variance of their inputs."""

    def reset_running_stats(self):
        """Resets the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()


def calculate_gain(nonlinearity, param=None):
    """The factor that preserves the variance of a signal through a layer followed by the named nonlinearity."""
    return _C._calculate_gain(nonlinearity, param)
