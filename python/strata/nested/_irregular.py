"""Nested tensors whose components differ in several dimensions: the elements of all of them follow each other in one vector.
Functions of single elements work on that vector, others on one component after the other."""

from .. import _C
from ._tensor import NestedTensor, RaggedSize, Tensor, ops, packed

_pad = ops["nn.functional.pad"]


class IrregularNestedTensor(NestedTensor):
    """Components of one number of dimensions and any sizes; nested_tensor() makes one where it is needed."""

    # _held: all elements, [count]; _sizes: the shape of each component.
    _ragged = None

    @property
    def shape(self):
        sizes = []
        for d, lengths in enumerate(zip(*self._sizes, strict=True), 1):
            same = all(n == lengths[0] for n in lengths)
            sizes.append(lengths[0] if same else RaggedSize(self._sizes, f"j{d}"))
        return (len(self), *sizes)

    @property
    def ndim(self):
        return len(self._sizes[0]) + 1

    def dim(self):
        """The number of dimensions, with that of the batch."""
        return self.ndim

    def offsets(self):
        """Raises: the components are no rows of one tensor."""
        raise RuntimeError("offsets() is for nested tensors that differ in their first dimension only; use unbind()")

    def unbind(self, dim=0):
        """The components."""
        if dim not in (0, -self.dim()):
            raise RuntimeError(f"unbind(): a nested tensor can only be taken apart along dim 0, got {dim}")
        return tuple(
            p.reshape(s) for p, s in zip(self._held.split([_count(s) for s in self._sizes]), self._sizes, strict=True)
        )

    def to_padded_tensor(self, padding, output_size=None):
        """A dense tensor [batch, largest sizes] with padding after each component, in all dimensions."""
        sizes = [max(lengths) for lengths in zip(*self._sizes, strict=True)]
        if output_size is not None:
            target = list(output_size)
            plain = [len(self), *sizes]
            if (
                len(target) != len(plain)
                or target[0] != plain[0]
                or any(a < b for a, b in zip(target, plain, strict=True))
            ):
                raise RuntimeError(f"to_padded_tensor: output_size {target} is smaller than the tensor {plain}")
            sizes = target[1:]
        rows = []
        for part in self.unbind():
            widths = [w for n, m in zip(reversed(part.shape), reversed(sizes), strict=True) for w in (0, m - n)]
            rows.append(_pad(part, widths, "constant", padding))
        return ops["stack"](rows)

    def contiguous(self, **_):
        """The tensor itself: its elements are packed."""
        return self

    def is_contiguous(self, *_, **__):
        """True: elements are packed."""
        return True

    def to(self, *args, **kwargs):
        """On another device or in another dtype, as Tensor.to()."""
        if args and isinstance(args[0], NestedTensor):
            args = (args[0]._held, *args[1:])
        held = self._held.to(*args, **kwargs)
        return self if held is self._held else self._with(held)

    def _with(self, held):
        """A tensor of the same sizes with other elements."""
        return irregular(held, self._sizes)

    def __len__(self):
        return len(self._sizes)

    def __reduce_ex__(self, protocol):
        return _unpickled, (self._held.detach(), self._sizes, self.requires_grad)

    @classmethod
    def _run(cls, name, func, args, kwargs):
        from ._components import run
        from ._tensor import _OF_THE_ROWS

        if name in _OF_THE_ROWS:
            return NestedTensor._run(name, func, args, kwargs)
        return run(name, func, args, kwargs)


def _count(sizes):
    count = 1
    for n in sizes:
        count *= n
    return count


def irregular(held, sizes):
    """A nested tensor of its elements and the shapes of its components, without checks."""
    base = ops["empty"]([len(sizes)], dtype=held.dtype, device="meta")
    made = Tensor._make_subclass(IrregularNestedTensor, base, False)
    made._held, made._sizes, made._layout = held, sizes, "strided"
    return made


def from_components(parts, layout="strided"):
    """A nested tensor of tensors with one number of dimensions: of packed rows if only their first sizes differ."""
    first = parts[0]
    if first.dim() > 0 and all(p.shape[1:] == first.shape[1:] for p in parts):
        starts = [0]
        for p in parts:
            starts.append(starts[-1] + p.shape[0])
        offsets = _C.tensor(starts, dtype=_C.int64, device=first.device)
        rows = ops["cat"](parts) if len(parts) > 1 else first.clone()
        return packed(rows, offsets, max(p.shape[0] for p in parts), 1, layout)
    if layout == "jagged":
        raise NotImplementedError(
            "jagged nested tensors may differ in their first dimension only, got shapes "
            f"{[list(p.shape) for p in parts[:4]]}; use layout=torch.strided"
        )
    return irregular(ops["cat"]([p.reshape(-1) for p in parts]), tuple(tuple(p.shape) for p in parts))


def _unpickled(held, sizes, requires_grad):
    return irregular(held, sizes).requires_grad_(requires_grad)
