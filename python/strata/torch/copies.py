"""PyTorch's *_copy functions: what a view shows, in memory of its own."""

from .. import _C

_VIEWS = dict(
    detach_copy=_C.ops["detach"],
    select_copy=_C.ops["select"],
    split_copy=_C.ops["split"],
    view_as_complex_copy=_C.ops["view_as_complex"],
    view_as_real_copy=_C.ops["view_as_real"],
    slice_copy=lambda input, dim=0, start=None, end=None, step=1: input[
        (slice(None),) * (dim % input.dim()) + (slice(start, end, step),)
    ],
    **{
        f"{name}_copy": lambda input, name=name: getattr(input, name)()
        for name in ("indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices")
    },
)


def _copying(name, view):
    def copied(input, *args, **kwargs):
        found = view(input, *args, **kwargs)
        return tuple(t.clone() for t in found) if isinstance(found, (tuple, list)) else found.clone()

    copied.__name__, copied.__doc__ = name, f"A copy of what {name.removesuffix('_copy')} returns."
    return copied


globals().update({name: _copying(name, view) for name, view in _VIEWS.items()})
