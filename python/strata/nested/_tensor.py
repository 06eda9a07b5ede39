"""The class of nested tensors: a batch of tensors that differ in one dimension. The rows of all of them follow each other in
one packed tensor; an object is a Tensor without memory that holds it and the start of each row. Functions reach it by
__torch_function__; _functions has a table of those it knows."""

from .. import _C
from .._held import HoldingTensor

Tensor, ops = _C.Tensor, _C.ops


class RaggedSize:
    """The size of a dimension in which the components differ: it equals only itself, and has no value."""

    def __init__(self, offsets, name="j1"):
        self._offsets, self._name = offsets, name

    def __eq__(self, other):
        return isinstance(other, RaggedSize) and other._offsets is self._offsets and other._name == self._name

    def __hash__(self):
        return hash((id(self._offsets), self._name))

    def __repr__(self):
        return self._name


class NestedTensor(HoldingTensor):
    """Tensors of different lengths as one. nested_tensor(), as_nested_tensor() and nested_tensor_from_jagged() make one.
    Gradients flow through values()."""

    # _held: the packed rows [rows, ...]; _offsets: [batch + 1]; _longest: a number;
    # _ragged: the dimension of different sizes, 1, or 2 after transpose(1, 2).

    is_nested = True
    is_sparse = False
    _kind, _instead = "nested", "to_padded_tensor() or unbind()"
    _of_the_object = frozenset()  # the packed rows answer

    @property
    def layout(self):
        return self._layout

    @property
    def grad(self):
        grad = self._held.grad
        return None if grad is None else self._with(grad)

    @grad.setter
    def grad(self, value):
        if value is not None and not isinstance(value, NestedTensor):
            raise RuntimeError(f"grad: expected None or a nested tensor, got {type(value).__name__}")
        self._held.grad = None if value is None else value._held

    @property
    def shape(self):
        sizes = [RaggedSize(self._offsets), *self._held.shape[1:]]
        if self._ragged == 2:
            sizes[:2] = sizes[1::-1]
        return (len(self), *sizes)

    @property
    def ndim(self):
        return self._held.dim() + 1

    def dim(self):
        """The number of dimensions, with that of the batch."""
        return self._held.dim() + 1

    def size(self, dim=None):
        """The shape, or the size of one dimension; that of different sizes is an error in the layout strided."""
        if dim is None:
            if self._layout == "strided":
                raise RuntimeError(
                    "size() of a nested tensor: its components have different sizes; use size(dim) or unbind()"
                )
            return self.shape
        found = self.shape[dim]
        if isinstance(found, RaggedSize) and self._layout == "strided":
            raise RuntimeError(
                f"Given dimension {dim} is irregular and does not have a size; use offsets() or unbind()"
            )
        return found

    def _nested_tensor_size(self):
        """The shapes of the components, as rows of a tensor: PyTorch's name."""
        return _C.tensor([list(p.shape) for p in self.unbind()], dtype=_C.int64)

    def numel(self):
        """The number of elements of all components."""
        return self._held.numel()

    def values(self):
        """The packed rows of all components, [rows, ...]."""
        return self._held

    def offsets(self):
        """The place of each component's first row, and the number of rows."""
        return self._offsets

    def lengths(self):
        """None: components follow each other without gaps."""
        return None

    def unbind(self, dim=0):
        """The components."""
        if dim not in (0, -self.dim()):
            raise RuntimeError(f"unbind(): a nested tensor can only be taken apart along dim 0, got {dim}")
        bounds = self._offsets.tolist()
        parts = [self._held[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
        return tuple(p.transpose(0, 1) for p in parts) if self._ragged == 2 else tuple(parts)

    def to_padded_tensor(self, padding, output_size=None):
        """A dense tensor [batch, longest, ...] with padding after each component."""
        held, offsets = self._held, self._offsets
        starts, lengths = offsets[:-1], offsets[1:] - offsets[:-1]
        longest = self._longest
        if output_size is not None:
            target = list(output_size)
            plain = [len(self), longest, *held.shape[1:]]
            if self._ragged == 2 or len(target) != len(plain) or any(t < n for t, n in zip(target, plain, strict=True)):
                raise RuntimeError(f"to_padded_tensor: output_size {target} is smaller than the tensor {plain}")
            if target[2:] != plain[2:] or target[0] != plain[0]:
                raise RuntimeError("to_padded_tensor: output_size may only enlarge the dimension of different sizes")
            longest = target[1]
        steps = ops["arange"](longest, device=held.device)
        inside = steps < lengths.unsqueeze(1)
        if held.shape[0] == 0:
            dense = ops["full"]([len(self), longest, *held.shape[1:]], padding, dtype=held.dtype, device=held.device)
        else:
            rows = (starts.unsqueeze(1) + steps).clamp(max=held.shape[0] - 1)
            dense = held[ops["where"](inside, rows, ops["zeros_like"](rows))]
            mask = inside.reshape(*inside.shape, *[1] * (held.dim() - 1))
            dense = dense.masked_fill(~mask, padding)
        return dense.transpose(1, 2) if self._ragged == 2 else dense

    def detach(self):
        """The same components without history."""
        return self._with(self._held.detach())

    def clone(self, **_):
        """A copy, through which gradients flow."""
        return self._with(self._held.clone())

    def contiguous(self, **_):
        """The tensor itself: its rows are packed."""
        return self._with(self._held.contiguous())

    def is_contiguous(self, *_, **__):
        """Whether the packed rows are in order, and no dimensions are exchanged."""
        return self._ragged == 1 and self._held.is_contiguous()

    def to(self, *args, **kwargs):
        """On another device or in another dtype, as Tensor.to()."""
        if args and isinstance(args[0], NestedTensor):
            args = (args[0]._held, *args[1:])
        held = self._held.to(*args, **kwargs)
        if held is self._held:
            return self
        moved = self._offsets if held.device == self._offsets.device else self._offsets.to(held.device)
        return packed(held, moved, self._longest, self._ragged, self._layout)

    def backward(self, gradient=None, **kwargs):
        """backward() of the packed rows."""
        self._held.backward(None if gradient is None else gradient._held, **kwargs)

    def retain_grad(self):
        """Keeps the gradient after backward()."""
        self._held.retain_grad()

    def _with(self, held):
        """A tensor of the same lengths with other rows."""
        return packed(held, self._offsets, self._longest, self._ragged, self._layout)

    def __len__(self):
        return self._offsets.shape[0] - 1

    def __iter__(self):
        return iter(self.unbind())

    def __bool__(self):
        raise RuntimeError("the truth of a nested tensor is not defined; use unbind()")

    def __repr__(self, *, tensor_contents=None):
        parts = ",\n".join("  " + repr(p.detach()).replace("\n", "\n  ") for p in self.unbind())
        if self._layout == "strided":
            return f"nested_tensor([\n{parts}\n])"
        facts = f"size={self.shape}, offsets={self._offsets}"
        return f"NestedTensor({facts}, contiguous={self.is_contiguous()})"

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        parts = (self._held.detach(), self._offsets, self._longest, self._ragged, self._layout, self.requires_grad)
        return _unpickled, parts

    def __deepcopy__(self, memo):
        memo[id(self)] = made = self._with(self._held.detach().clone()).requires_grad_(self.requires_grad)
        return made

    @classmethod
    def _run(cls, name, func, args, kwargs):
        from ._functions import run

        if name in _OF_THE_ROWS:
            held = args[0]._held
            return func(held, *args[1:], **kwargs) if args[1:2] != (NestedTensor,) else func(held)
        return run(name, func, args, kwargs)


# What the packed rows answer.
_OF_THE_ROWS = frozenset(
    "dtype itemsize is_quantized is_floating_point is_complex is_signed element_size is_xla is_xpu is_mps is_vgpu".split()
)


def packed(held, offsets, longest, ragged=1, layout="jagged"):
    """A nested tensor of its parts, without checks."""
    base = ops["empty"]([offsets.shape[0] - 1], dtype=held.dtype, device="meta")
    made = Tensor._make_subclass(NestedTensor, base, False)
    made._held, made._offsets, made._longest, made._ragged, made._layout = held, offsets, longest, ragged, layout
    return made


def _unpickled(held, offsets, longest, ragged, layout, requires_grad):
    return packed(held, offsets, longest, ragged, layout).requires_grad_(requires_grad)
