"""Dimensions that vary: what a program's author says of them, and the sizes at which the program is captured."""

import itertools

from .. import _C
from ..utils import _pytree as pytree

_LARGEST = 2**31 - 1
_MOST = 4
_STEPS = 3  # the sizes of captures differ by at most so many in total: the degree of the polynomials that are found


class Dim:
    """A dimension of inputs whose size may vary from min to max. Without min, it may be 1 if the program is the same for it.

    >>> Dim("batch", min=2, max=64)
    Dim('batch', min=2, max=64)
    """

    def __init__(self, name, *, min=None, max=None):
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"Dim: expected a name such as 'batch', got {name!r}")
        for limit in (min, max):
            if limit is not None and (
                isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= _LARGEST
            ):
                raise ValueError(f"Dim '{name}': a limit is 0 to {_LARGEST}, got {limit!r}")
        if (max if max is not None else _LARGEST) < (min or 0) + _STEPS + 1:
            raise ValueError(f"Dim '{name}': max must be at least min + {_STEPS + 1}, got min={min}, max={max}")
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self):
        limits = "".join(f", {k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None)
        return f"Dim({self.__name__!r}{limits})"


class _Hint:
    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"Dim.{self._name}"


Dim.AUTO = Dim.DYNAMIC = _Hint("DYNAMIC")
Dim.STATIC = _Hint("STATIC")


def dims(*names, min=None, max=None):
    """Several dimensions with the same limits."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def _children(value):
    """The parts of a container with their keys, None for a leaf."""
    if isinstance(value, dict):
        return list(value.items())
    parts = pytree.tree_leaves(value, is_leaf=lambda v: v is not value)
    return None if len(parts) == 1 and parts[0] is value else list(enumerate(parts))


def _spec_of_leaves(value, spec, where):
    """What is said of each leaf of an argument, in order: pairs of the leaf and a dict of axes, a list, or None."""
    parts = _children(value)
    if parts is None:
        yield value, spec, where
        return
    if spec is not None and not isinstance(spec, tuple | list | dict):
        raise TypeError(
            f"export: dynamic_shapes of {where} is {spec!r}; expected a {type(value).__name__} like the argument"
        )
    keys = [key for key, _ in parts]
    if isinstance(spec, dict) and set(spec) - set(keys):
        raise ValueError(f"export: dynamic_shapes has {sorted(map(str, set(spec) - set(keys)))}; {where} has {keys}")
    if isinstance(spec, tuple | list) and len(spec) != len(parts):
        raise ValueError(f"export: dynamic_shapes of {where} has {len(spec)} entries; expected {len(parts)}")
    for i, (key, part) in enumerate(parts):
        own = None if spec is None else spec.get(key) if isinstance(spec, dict) else spec[i]
        yield from _spec_of_leaves(part, own, f"{where}[{key!r}]")


class Varying:
    """The dimensions that vary, and the axes of inputs that have them."""

    def __init__(self, arguments, kwargs, dynamic_shapes, names):
        self.dims, self.axes = [], []  # axes: (input, axis, dim)
        if not dynamic_shapes:
            return
        if isinstance(dynamic_shapes, dict):  # by the names of parameters
            unknown = set(dynamic_shapes) - set(names) - set(kwargs)
            if unknown:
                raise ValueError(f"export: dynamic_shapes has {sorted(unknown)}; the arguments are {[*names, *kwargs]}")
            said = [dynamic_shapes.get(name) for name in names], {key: dynamic_shapes.get(key) for key in kwargs}
        else:
            if len(dynamic_shapes) != len(arguments) + len(kwargs):
                raise ValueError(
                    f"export: dynamic_shapes has {len(dynamic_shapes)} entries; there are {len(arguments) + len(kwargs)} arguments"
                )
            said = dynamic_shapes[: len(arguments)], dict(zip(kwargs, dynamic_shapes[len(arguments) :], strict=True))
        leaves = [
            leaf
            for value, spec, name in zip(arguments, said[0], names, strict=True)
            for leaf in _spec_of_leaves(value, spec, name)
        ] + [leaf for key, value in kwargs.items() for leaf in _spec_of_leaves(value, said[1][key], key)]
        tensors = [leaf for leaf in leaves if isinstance(leaf[0], _C.Tensor)]
        for number, (tensor, spec, where) in enumerate(tensors):
            self._read(number, tensor, spec, where)

    def _read(self, number, tensor, spec, where):
        if spec is None:
            return
        if isinstance(spec, tuple | list):
            if len(spec) != tensor.dim():
                raise ValueError(
                    f"export: dynamic_shapes of {where} has {len(spec)} entries; the tensor has {tensor.dim()} dimensions"
                )
            spec = dict(enumerate(spec))
        if not isinstance(spec, dict):
            raise TypeError(f"export: dynamic_shapes of {where} is {spec!r}; expected a dict of axes, a tuple or None")
        for axis, dim in sorted(spec.items()):
            if not isinstance(axis, int) or not 0 <= axis < tensor.dim():
                raise ValueError(
                    f"export: dynamic_shapes of {where} has axis {axis!r}; the tensor has {tensor.dim()} dimensions"
                )
            if dim is Dim.DYNAMIC:
                dim = Dim(f"s{len(self.dims)}")
            if isinstance(dim, Dim):
                self.axes.append((number, axis, self._index(dim)))
            elif dim is not None and dim is not Dim.STATIC and dim != tensor.shape[axis]:
                raise TypeError(
                    f"export: dynamic_shapes of {where} has {dim!r} for axis {axis}; expected a Dim, Dim.AUTO, its size or None"
                )

    def _index(self, dim):
        for i, known in enumerate(self.dims):
            if known.__name__ == dim.__name__:
                if (known.min, known.max) != (dim.min, dim.max):
                    raise ValueError(f"export: {known!r} and {dim!r} have one name")
                return i
        if len(self.dims) == _MOST:
            raise ValueError(f"export: at most {_MOST} dimensions can vary")
        self.dims.append(dim)
        return len(self.dims) - 1

    def points(self, tensors):
        """Sizes to capture at: a first point, those with somewhat larger sizes, and one to check the result at."""
        sizes = [{tensors[n].shape[axis] for n, axis, d in self.axes if d == i} for i in range(len(self.dims))]
        for dim, found in zip(self.dims, sizes, strict=True):
            if len(found) > 1:
                raise ValueError(f"export: the example has sizes {sorted(found)} for {dim!r}; expected one")
            (size,) = found
            if not (dim.min or 0) <= size <= (dim.max or _LARGEST):
                raise ValueError(f"export: the example has size {size} for {dim!r}")
        largest = [dim.max or _LARGEST for dim in self.dims]
        # Not 0 and 1, for which shapes may be special.
        first = [
            min(max(*found, 2, dim.min or 0), top - _STEPS)
            for dim, found, top in zip(self.dims, sizes, largest, strict=True)
        ]
        steps = itertools.product(range(_STEPS + 1), repeat=len(first))
        grown = [[size + n for size, n in zip(first, step, strict=True)] for step in steps if sum(step) <= _STEPS]
        return [*grown, [min(size + 5 + 2 * i, top) for i, (size, top) in enumerate(zip(first, largest, strict=True))]]

    def limits(self, small):
        """(name, min, max) of each; `small` is the least size without a min."""
        return [(d.__name__, small if d.min is None else d.min, d.max or _LARGEST) for d in self.dims]

    def resized(self, tensors, point):
        """The tensors with these sizes: rows are repeated, so that integers stay in their range."""
        tensors = list(tensors)
        for number, axis, dim in self.axes:
            t = tensors[number]
            if t.shape[axis] == point[dim]:
                continue
            if t.shape[axis] == 0:
                shape = list(t.shape)
                shape[axis] = point[dim]
                tensors[number] = t.new_zeros(shape)
            else:
                index = _C.ops["arange"](point[dim], device=t.device) % t.shape[axis]
                tensors[number] = t.index_select(axis, index)
        return tensors
