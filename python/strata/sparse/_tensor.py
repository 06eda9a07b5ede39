"""The class of sparse tensors. An object is a Tensor without memory, of the shape and dtype, with index tensors and values.
Those of a tensor by coordinates are in the library, which makes such tensors as gradients; those of other layouts are here.
Functions reach an object by __torch_function__; _functions has a table of those it knows."""

import re

from .. import _C
from .._held import HoldingTensor

Tensor, ops = _C.Tensor, _C.ops

ROWS, COLUMNS, BLOCKS = ("sparse_csr", "sparse_bsr"), ("sparse_csc", "sparse_bsc"), ("sparse_bsr", "sparse_bsc")
COMPRESSED = (*ROWS, *COLUMNS)
_TRANSPOSED = dict(zip(COMPRESSED, (*COLUMNS, *ROWS), strict=True))


class SparseTensor(HoldingTensor):
    """A tensor of which only the listed elements are stored. sparse_coo_tensor(), sparse_csr_tensor() and to_sparse() make
    one. Gradients flow through values()."""

    _kind, _instead = "sparse", "to_dense()"
    _layout = "sparse_coo"  # of an object that the library made
    _compressed = None  # of other layouts: (compressed indices, plain indices), values

    # --- properties of the values ---------------------------------------------------------------------------------------

    @property
    def layout(self):
        return self._layout

    @property
    def is_sparse(self):
        return self._layout == "sparse_coo"

    @property
    def is_sparse_csr(self):
        return self._layout == "sparse_csr"

    @property
    def grad(self):
        grad = self._held.grad
        return None if grad is None else self._with(grad)

    @grad.setter
    def grad(self, value):
        if value is not None and not (isinstance(value, SparseTensor) and value._nnz() == self._nnz()):
            raise RuntimeError(
                f"grad: expected None or a sparse tensor of {self._nnz()} elements, got {type(value).__name__}"
            )
        self._held.grad = None if value is None else value._held

    @property
    def T(self):
        return self.t()

    @property
    def mT(self):
        return self.transpose(-2, -1)

    # --- the parts ------------------------------------------------------------------------------------------------------

    @property
    def _places(self):
        return self._compressed[0] if self._compressed else _C._sparse_parts(self)[0]

    @property
    def _held(self):
        return self._compressed[1] if self._compressed else _C._sparse_parts(self)[1]

    @property
    def _coalesced(self):
        return self._compressed is not None or _C._sparse_parts(self)[2]

    def _nnz(self):
        return self._held.shape[0]

    def _indices(self):
        self._expect(("sparse_coo",), "indices", "coordinate")
        return self._places

    def _values(self):
        return self._held

    def indices(self):
        """The coordinates [sparse_dim, count] of a coalesced tensor."""
        if self._layout == "sparse_coo" and not self._coalesced:
            raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
        return self._indices()

    def values(self):
        """The stored elements [count, ...], of a coalesced or compressed tensor; of blocks [count, rows, columns]."""
        if self._layout == "sparse_coo" and not self._coalesced:
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
        return self._held

    def crow_indices(self):
        """The place of the first element of each row, and one after the last."""
        self._expect(ROWS, "crow_indices", "row compressed")
        return self._places[0]

    def col_indices(self):
        """The column of each element."""
        self._expect(ROWS, "col_indices", "row compressed")
        return self._places[1]

    def ccol_indices(self):
        """The place of the first element of each column, and one after the last."""
        self._expect(COLUMNS, "ccol_indices", "column compressed")
        return self._places[0]

    def row_indices(self):
        """The row of each element."""
        self._expect(COLUMNS, "row_indices", "column compressed")
        return self._places[1]

    def sparse_dim(self):
        """The number of dimensions with indices."""
        return 2 if self._compressed else self._places.shape[0]

    def dense_dim(self):
        """The number of dimensions of each stored element."""
        return self.dim() - self.sparse_dim()

    def is_coalesced(self):
        """Whether the coordinates are in order, each once."""
        self._expect(("sparse_coo",), "is_coalesced", "coordinate")
        return self._coalesced

    def coalesce(self):
        """The same tensor with its coordinates in order, the values of equal ones added."""
        self._expect(("sparse_coo",), "coalesce", "coordinate")
        if self._coalesced:
            return self
        indices, values = ops["_sparse_coalesce"](self._places, self._held, self.shape)
        return coordinates(indices, values, self.shape, True)

    def _coalesced_(self, value):
        _C._set_sparse_parts(self, self._places, self._held, value)
        return self

    def _become(self, other):
        """In place: the elements of another tensor of the same layout and shape."""
        if self._compressed:
            self._compressed = other._compressed
        else:
            _C._set_sparse_parts(self, other._places, other._held, other._coalesced)
        return self

    # --- conversions ----------------------------------------------------------------------------------------------------

    def to_dense(self, dtype=None, *, masked_grad=True):
        """The dense tensor; values of equal coordinates are added."""
        coo = self.to_sparse_coo()
        dense = ops["_sparse_to_dense"](coo._places, coo._held, coo.shape)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, *args, layout=None, blocksize=None, dense_dim=None):
        """The same elements in another layout; sparse_coo unless one is given."""
        if args and (len(args) > 1 or args[0] != self.sparse_dim()):
            raise NotImplementedError(
                f"to_sparse: expected {self.sparse_dim()} sparse dimensions, as the tensor has, got {args}"
            )
        return self._in_layout(layout or "sparse_coo", blocksize)

    def to_sparse_coo(self):
        """By coordinates."""
        return self._in_layout("sparse_coo")

    def to_sparse_csr(self, dense_dim=None):
        """In compressed rows."""
        return self._in_layout("sparse_csr")

    def to_sparse_csc(self, dense_dim=None):
        """In compressed columns."""
        return self._in_layout("sparse_csc")

    def to_sparse_bsr(self, blocksize, dense_dim=None):
        """Blocks of (rows, columns) elements, in compressed rows."""
        return self._in_layout("sparse_bsr", blocksize)

    def to_sparse_bsc(self, blocksize, dense_dim=None):
        """Blocks of (rows, columns) elements, in compressed columns."""
        return self._in_layout("sparse_bsc", blocksize)

    def _blocksize(self):
        return tuple(self._held.shape[1:]) if self._layout in BLOCKS else ()

    def _in_layout(self, layout, blocksize=None):
        if layout not in ("sparse_coo", *COMPRESSED):
            raise unknown_layout(layout)
        blocks = tuple(blocksize or ())
        if bool(blocks) != (layout in BLOCKS):
            raise RuntimeError(
                f"to_sparse: the layout {layout} needs {'a blocksize of two numbers' if not blocks else 'no blocksize'}"
            )
        if layout == self._layout and blocks == self._blocksize():
            return self
        if self._compressed:
            indices, values = _C._compressed_to_coo(*self._places, self._held, self._layout in COLUMNS)
            coo = coordinates(indices, values, self.shape, self._layout == "sparse_csr")
        else:
            coo = self
        if layout == "sparse_coo":
            return coo.coalesce() if self._compressed else coo
        if self.dim() != 2 or coo.sparse_dim() != 2:
            raise RuntimeError(
                f"to_{layout}: expected a sparse matrix, got shape {list(self.shape)} with {coo.sparse_dim()} sparse dimensions"
            )
        parts = _C._coo_to_compressed(coo._places, coo._held, tuple(self.shape), blocks, layout in COLUMNS)
        return compressed(*parts, self.shape, layout)

    def _like(self, other):
        """In the layout of another tensor."""
        return self._in_layout(other._layout, other._blocksize())

    def _transposed(self):
        """A compressed matrix with rows and columns exchanged: its rows are then columns."""
        values = self._held.transpose(1, 2) if self._layout in BLOCKS else self._held
        return compressed(*self._places, values, (self.shape[1], self.shape[0]), _TRANSPOSED[self._layout])

    def to(self, *args, **kwargs):
        """On another device or in another dtype, as Tensor.to()."""
        like = args[0]._held if args and isinstance(args[0], SparseTensor) else args[0] if args else None
        held = self._held.to(*([like, *args[1:]] if args else ()), **kwargs)
        places = self._map_places(lambda t: t.to(held.device))
        return self if held is self._held else rebuilt(self, places, held)

    def cpu(self):
        """On the CPU."""
        return self.to("cpu")

    def cuda(self, device=None, **_):
        """On an NVIDIA GPU."""
        return self.to("cuda" if device is None else device)

    def detach(self):
        """The same elements without history."""
        return self._with(self._held.detach())

    def clone(self, **_):
        """A copy, through which gradients flow."""
        return rebuilt(self, self._map_places(lambda t: t.clone()), self._held.clone())

    def retain_grad(self):
        """Keeps the gradient after backward()."""
        self._held.retain_grad()

    # --- inner helpers --------------------------------------------------------------------------------------------------

    def _expect(self, layouts, what, kind):
        if self._layout not in layouts:
            raise RuntimeError(f"{what} expected sparse {kind} tensor layout but got {self._layout}")

    def _map_places(self, f):
        return tuple(map(f, self._places)) if isinstance(self._places, tuple) else f(self._places)

    def _with(self, values):
        return rebuilt(self, self._places, values)

    # --- Python ---------------------------------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents=None):
        names = ("indices",)
        if self._compressed:
            names = ("crow_indices", "col_indices") if self._layout in ROWS else ("ccol_indices", "row_indices")
        places = self._places if isinstance(self._places, tuple) else (self._places,)
        parts = [_part(n, t) for n, t in zip((*names, "values"), (*places, self._held.detach()), strict=True)]
        package = str(_C.float32).partition(".")[0]  # torch for programs that imported Strata under that name
        facts = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}", f"layout={package}.{self._layout}"]
        if self.device.type != "cpu":
            facts.insert(0, f"device='{self.device}'")
        if self.requires_grad:
            facts.append("requires_grad=True" if self.is_leaf else f"grad_fn=<{self.grad_fn.name()}>")
        return _with_facts("tensor(" + ",\n       ".join(parts), facts, new_line=not self._compressed)

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        parts = (
            self._places,
            self._held.detach(),
            tuple(self.shape),
            self._layout,
            self._coalesced,
            self.requires_grad,
        )
        return _unpickled, parts

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("only sparse tensors without history can be copied by deepcopy; detach() it first")
        made = rebuilt(self, self._map_places(lambda t: t.clone()), self._held.detach().clone())
        memo[id(self)] = made.requires_grad_(self.requires_grad)
        return made

    def __copy__(self):
        return self._with(self._held)

    def __len__(self):
        if not self.dim():
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __bool__(self):
        raise RuntimeError("the truth of a sparse tensor is not defined; use to_dense()")

    def __iter__(self):
        raise NotImplementedError("a sparse tensor cannot be iterated over; use to_dense() or indices() and values()")

    @classmethod
    def _run(cls, name, func, args, kwargs):
        from ._functions import HANDLERS

        handler = HANDLERS.get(name)
        if handler is None:
            raise NotImplementedError(f"{name} is not available for sparse tensors; convert them with to_dense() first")
        return handler(*args, **kwargs)


_C._set_sparse_type(SparseTensor)


def _part(name, t):
    if not t.numel():
        return f"{name}=tensor([], size={tuple(t.shape)})"
    return f"{name}=" + re.sub(r"\n(?!\n)", "\n" + " " * len(f"tensor({name}="), repr(t))


def _with_facts(text, facts, new_line):
    """The facts after a text, on a new line where the line would be longer than 80."""
    length = len(text) - text.rfind("\n") + 1
    for fact in facts:
        new_line = new_line or length + len(fact) + 2 > 80
        text += (",\n       " if new_line else ", ") + fact
        length = 7 + len(fact) if new_line else length + len(fact) + 2
        new_line = False
    return text + ")"


def unknown_layout(layout):
    """The error for a layout that is not supported."""
    return NotImplementedError(
        f"the layout {layout} is not supported; use sparse_coo or one of {', '.join(COMPRESSED)}"
    )


def coordinates(indices, values, size, coalesced=False):
    """A tensor by coordinates, without checks."""
    return _C._sparse_tensor(indices, values, tuple(size), coalesced)


def compressed(starts, plain, values, size, layout="sparse_csr"):
    """A matrix in compressed rows or columns, without checks."""
    base = ops["empty"](tuple(size), dtype=values.dtype, device="meta")
    made = Tensor._make_subclass(SparseTensor, base, False)
    made._compressed, made._layout = ((starts, plain), values), layout
    return made


def rebuilt(like, places, values):
    """A tensor of the layout and shape of another, of other parts."""
    if like._compressed:
        return compressed(*places, values, like.shape, like._layout)
    return coordinates(places, values, like.shape, like._coalesced)


def _unpickled(places, values, size, layout, coalesced, requires_grad):
    made = (
        coordinates(places, values, size, coalesced)
        if layout == "sparse_coo"
        else compressed(*places, values, size, layout)
    )
    return made.requires_grad_(requires_grad)


_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}


def _conversion(name, dtype):
    def convert(self):
        return self.to(getattr(_C, dtype))

    convert.__name__, convert.__doc__ = name, f"The same tensor in {dtype}."
    return convert


for _name, _dtype in _DTYPES.items():
    setattr(SparseTensor, _name, _conversion(_name, _dtype))
