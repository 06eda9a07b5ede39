"""What notebooks show: tensors as tables, modules as trees that can be opened."""

from html import escape

_MOST = 12  # rows and columns of a table
_CELL = "padding:1px 8px;text-align:right;font-family:monospace"


def _places(n):
    """The indices that are shown of n, with None where some are left out."""
    if n <= _MOST:
        return list(range(n))
    return [*range(_MOST // 2), None, *range(n - _MOST // 2, n)]


def _number(value):
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _facts(t):
    facts = [str(t.dtype).rpartition(".")[2], f"[{', '.join(map(str, t.shape))}]", str(t.device)]
    if t.requires_grad:
        facts.append("requires a gradient" if t.grad_fn is None else f"grad_fn {type(t.grad_fn).__name__}")
    return " · ".join(facts)


def _table(t):
    """A table of a tensor of one or two dimensions with elements."""
    grid = t.reshape(1, -1) if t.dim() == 1 else t
    rows, columns = _places(grid.shape[0]), _places(grid.shape[1])
    lines = []
    for r in rows:
        values = None if r is None else grid[r].tolist()
        cells = ("…" if r is None or c is None else escape(_number(values[c])) for c in columns)
        lines.append("<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>")
    return f'<div style="overflow-x:auto"><table style="border-collapse:collapse">{"".join(lines)}</table></div>'


def tensor_html(t):
    """The facts of a tensor and its values: as a table if it has one or two dimensions, otherwise as print shows them."""
    heading = f"<div><b>tensor</b> <small>{escape(_facts(t))}</small></div>"
    own = t.detach()
    if own.is_sparse or own.device.type == "meta" or own.dim() not in (1, 2) or own.numel() == 0:
        return f"{heading}<pre>{escape(repr(t))}</pre>"
    if own.shape[-1] > _MOST * 100 or own.shape[0] > _MOST * 100:  # only what is shown is copied from devices
        for d in range(own.dim()):
            if own.shape[d] > 2 * _MOST:
                from . import cat

                half = own.narrow(d, 0, _MOST), own.narrow(d, own.shape[d] - _MOST, _MOST)
                own = cat(half, d)
    return heading + _table(own.cpu())


def _size(n):
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def _count(module):
    """Parameters, and bytes of parameters and buffers, each tensor once."""
    from .nn.parameter import is_lazy

    parameters = {id(p): p for p in module.parameters() if not is_lazy(p)}
    tensors = parameters | {id(t): t for t in module.buffers() if not is_lazy(t)}
    return sum(p.numel() for p in parameters.values()), sum(t.numel() * t.element_size() for t in tensors.values())


def _of_tensor(t):
    from .nn.parameter import is_lazy

    return "not initialized yet" if is_lazy(t) else _facts(t)


def _branch(name, module, is_open):
    numbers, size = _count(module)
    facts = f"{numbers:,} parameters, {_size(size)}" if size else "no parameters"
    label = f"{escape(name)}: " if name else ""
    extra = module.extra_repr()
    extra = f" <code>{escape(extra)}</code>" if extra and "\n" not in extra else ""
    head = f"{label}<b>{escape(type(module).__name__)}</b>{extra} <small>{facts}</small>"
    inside = [
        f"<li>{escape(key)} <small>{escape(_of_tensor(t))}</small></li>"
        for some in (module.named_parameters(recurse=False), module.named_buffers(recurse=False))
        for key, t in some
    ]
    inside += [f"<li>{_branch(key, child, False)}</li>" for key, child in module.named_children()]
    if not inside:
        return head
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{head}</summary><ul>{''.join(inside)}</ul></details>"


def module_html(module):
    """A tree of the modules with their parameters; the first level is open."""
    return _branch("", module, True)
