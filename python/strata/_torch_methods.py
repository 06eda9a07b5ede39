"""Methods of Tensor that mostly older PyTorch programs call: types, storages, legacy constructors, names of linalg functions."""

from . import _C

Tensor, ops = _C.Tensor, _C.ops


def _method(f):
    setattr(Tensor, f.__name__, f)
    return f


@_method
def type(self, dtype=None, non_blocking=False):
    """The name of the tensor's type, or the tensor converted to a dtype or a type such as torch.LongTensor."""
    from .torch.legacy_types import resolve, type_name

    if dtype is None:
        return type_name(self.dtype, self.is_cuda)
    target, place = resolve(dtype)
    return self.to(target) if place is None else self.to(place, target)


@_method
def new(self, *args, device=None):
    """A tensor of the same dtype and device: of the given sizes, uninitialized, or with the given data."""
    place = device or self.device
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach()
    if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
        return _C.tensor(args[0], dtype=self.dtype, device=place)
    shape = args[0] if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
    return ops["empty"](tuple(shape), dtype=self.dtype, device=place)


@_method
def storage(self):
    """The tensor's memory as numbers; views of one tensor have the same."""
    from .torch.storage import TypedStorage

    return TypedStorage._of(self)


@_method
def untyped_storage(self):
    """The tensor's memory as bytes; views of one tensor have the same."""
    from .torch.storage import UntypedStorage

    return UntypedStorage._of(self)


@_method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Makes this tensor use the memory of another tensor or storage."""
    if source is None:
        source = ops["empty"](0, dtype=self.dtype, device=self.device)
    if not isinstance(source, Tensor):
        source = source._elements if hasattr(source, "_elements") else source._bytes.view(self.dtype)
    if size is not None:
        shape = tuple(size)
        source = source.as_strided(shape, stride or ops["empty"](shape, device="meta").stride(), storage_offset)
    self.data = source
    return self


@_method
def map_(self, other, callable):
    """Replaces each element by callable(element, element of other): slow, for the CPU."""
    return _map(callable, self, other)


@_method
def map2_(self, x, y, callable):
    """Replaces each element by callable(element, element of x, element of y): slow, for the CPU."""
    return _map(callable, self, x, y)


def _map(callable, tensor, *others):
    columns = [t.expand_as(tensor).flatten().tolist() for t in (tensor, *others)]
    made = [callable(*row) for row in zip(*columns, strict=True)]
    tensor.data.copy_(_C.tensor(made, dtype=tensor.dtype).reshape(tensor.shape))
    return tensor


@_method
def is_nonzero(self):
    """Whether the only element is not zero."""
    return bool(self)


@_method
def to_dense(self, dtype=None, *, masked_grad=True):
    """The tensor itself, which is dense; sparse tensors have their own."""
    return self if dtype is None else self.to(dtype)


@_method
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The elements that are not zero, as a sparse tensor."""
    from .sparse import _create

    return _create.to_sparse(self, sparse_dim, layout=layout, blocksize=blocksize)


@_method
def to_sparse_coo(self):
    """The elements that are not zero, by coordinates."""
    return self.to_sparse()


@_method
def to_sparse_csr(self, dense_dim=None):
    """The elements of a matrix that are not zero, in compressed rows."""
    return self.to_sparse(layout="sparse_csr")


@_method
def to_sparse_csc(self, dense_dim=None):
    """The elements of a matrix that are not zero, in compressed columns."""
    return self.to_sparse(layout="sparse_csc")


@_method
def to_sparse_bsr(self, blocksize, dense_dim=None):
    """The blocks (rows, columns) of a matrix that are not zero, in compressed rows."""
    return self.to_sparse(layout="sparse_bsr", blocksize=blocksize)


@_method
def to_sparse_bsc(self, blocksize, dense_dim=None):
    """The blocks (rows, columns) of a matrix that are not zero, in compressed columns."""
    return self.to_sparse(layout="sparse_bsc", blocksize=blocksize)


@_method
def sparse_mask(self, mask):
    """The elements at the places of a sparse mask."""
    from .sparse import _functions

    return _functions.sparse_mask(self, mask)


@_method
def is_distributed(self):
    """False."""
    return False


def _sparse_only(name):
    def refuse(self):
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got Strided; to_sparse() converts a tensor"
        )

    refuse.__name__, refuse.__doc__ = name, "Raises: this tensor is dense."
    return _method(refuse)


for _name in """is_coalesced coalesce indices values _indices _values _nnz sparse_dim dense_dim crow_indices col_indices
ccol_indices row_indices""".split():
    _sparse_only(_name)


@_method
def as_subclass(self, cls):
    """A view of the tensor as an object of a subclass; gradients flow through it."""
    return _C._as_subclass(self, cls)


@_method
def dim_order(self, ambiguity_check=False):
    """The dimensions from the largest stride to the smallest."""
    return tuple(sorted(range(self.dim()), key=lambda d: (-self.stride(d), d)))


@_method
def reinforce(self, reward):
    """Raises: PyTorch removed it."""
    raise RuntimeError("reinforce() was removed from PyTorch; use distributions and log_prob")


@_method
def polygamma(self, n):
    """The n-th derivative of digamma."""
    return ops["special.polygamma"](n, self)


@_method
def polygamma_(self, n):
    """The n-th derivative of digamma, in place."""
    return self.copy_(self.polygamma(n))


@_method
def float_power_(self, exponent):
    """The power in double precision, in place: for tensors of float64 and complex128."""
    found = ops["float_power"](self, exponent)
    if found.dtype is not self.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype} but the operation's result requires dtype {found.dtype}"
        )
    return self.copy_(found)


@_method
def as_strided_(self, size, stride, storage_offset=None):
    """Changes the tensor's sizes and strides over the same memory."""
    return self.set_(self.as_strided(size, stride, storage_offset))


@_method
def _is_view(self):
    """Whether the tensor shows memory of another tensor that has a history."""
    return self._base is not None


def _add_names():
    for name, op in dict(
        det="linalg.det",
        slogdet="linalg.slogdet",
        matrix_power="linalg.matrix_power",
        matrix_exp="linalg.matrix_exp",
        orgqr="linalg.householder_product",
    ).items():
        setattr(Tensor, name, ops[op])
    Tensor.__rdiv__ = Tensor.__rtruediv__  # Python 2's name
    for name in ("is_sparse_csr", "is_mkldnn", "is_xla", "is_xpu", "is_ipu", "is_vulkan", "is_mtia", "is_maia"):
        setattr(Tensor, name, False)
    Tensor.name, Tensor.names, Tensor.volatile, Tensor.output_nr = (
        None,
        property(lambda self: (None,) * self.dim()),
        False,
        0,
    )


_add_names()
