"""report(): the error of each layer under autocast, compared with float32."""

from .. import _C
from ..autograd import no_grad
from ..random import get_rng_state, set_rng_state
from .autocast_mode import autocast

__all__ = ["Report", "Row", "report"]


class Row:
    """One call of a layer. Errors are relative: the norm of the difference over the norm of the float32 result."""

    def __init__(self, name, module, dtype, error):
        self.name, self.module, self.dtype = name, module, dtype
        self.error = error  # of this layer alone: under autocast, with the inputs of the float32 run
        self.accumulated = None  # with the inputs of the run under autocast

    def __repr__(self):
        return (
            f"Row({self.name}: {self.module}, {self.dtype}, error={self.error:.1e}, accumulated={self.accumulated:.1e})"
        )


class Report:
    """The rows in the order of the calls, and the worst one. Prints as a table."""

    def __init__(self, rows):
        self.rows = rows

    @property
    def worst(self):
        """The row with the largest error of its own; NaN and infinity count as the largest."""
        return max(self.rows, key=lambda row: row.error if row.error == row.error else float("inf"))

    def __str__(self):
        head = ("layer", "module", "dtype", "error", "accumulated")
        table = [head]
        for r in self.rows:
            dtype = str(r.dtype).rsplit(".", 1)[-1]
            table.append((r.name, r.module, dtype, f"{r.error:.1e}", f"{r.accumulated:.1e}"))
        widths = [max(len(line[i]) for line in table) for i in range(len(head))]
        lines = ["  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in table]
        worst = self.worst
        return "\n".join([*lines, f"worst: {worst.name} ({worst.module}), error {worst.error:.1e}"])

    __repr__ = __str__


def _tensors(value):
    """The floating tensors inside nested lists, tuples and dicts."""
    if isinstance(value, _C.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in _tensors(item)] if isinstance(value, (list, tuple)) else []


def _copied(value):
    """The same nested lists, tuples and dicts with copies of the tensors: layers may write to their inputs."""
    if isinstance(value, _C.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return value


def _error(got, want):
    """The relative error over all tensors of a result, in float64."""
    difference = total = 0.0
    for a, b in zip(got, want, strict=True):
        a, b = a.detach().cpu().double(), b.detach().cpu().double()
        difference += ((a - b) ** 2).sum().item()
        total += (b**2).sum().item()
    if difference == 0:
        return 0.0
    return (difference / total) ** 0.5 if total > 0 else float("inf")


def report(model, batch, *, device_type=None, dtype=None):
    """Runs model(batch) in float32 and under autocast, and compares the results of each layer.

    `batch` is a tensor, a tuple or list of positional arguments, or a dict of keyword arguments. The device type is that
    of the model. Layers are modules without children. Parameters, buffers and random numbers are as before afterwards.
    """
    args, kwargs = (
        ((), batch) if isinstance(batch, dict) else (batch if isinstance(batch, (tuple, list)) else (batch,), {})
    )
    if device_type is None:
        found = [*model.parameters(), *model.buffers(), *_tensors([args, kwargs])]
        device_type = found[0].device.type if found else "cpu"
    layers = [(name or "(model)", m) for name, m in model.named_modules() if not list(m.children())]
    rows, results, state = [], [], {"run": "float32", "call": 0}
    before = {}  # when a layer was called: the state of the generator, so that dropout draws the same numbers again, and its arguments

    def lower():
        return autocast(device_type, dtype=dtype)

    def remember(module, inputs, keywords):
        if state["run"] == "float32":
            before[module] = get_rng_state(), _copied(inputs), _copied(keywords)

    def hook_of(name):
        def hook(module, inputs, keywords, output):
            if state["run"] == "inside" or not _tensors(output):
                return
            if state["run"] == "autocast":
                if state["call"] == len(rows) or rows[state["call"]].name != name:
                    raise ValueError(f"amp.report: under autocast the model calls {name} where the float32 run did not")
                row, want = rows[state["call"]], results[state["call"]]
                row.accumulated = _error(_tensors(output), want)
                state["call"] += 1
                return
            want = [t.detach().clone() for t in _tensors(output)]
            state["run"] = "inside"
            now = get_rng_state()
            seed, inputs, keywords = before.pop(module)
            set_rng_state(seed)
            try:
                with lower():
                    alone = _tensors(module(*inputs, **keywords))
            finally:
                set_rng_state(now)
                state["run"] = "float32"
            rows.append(Row(name, type(module).__name__, alone[0].dtype, _error(alone, want)))
            results.append(want)

        return hook

    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    seed = get_rng_state()
    handles = [m.register_forward_hook(hook_of(name), with_kwargs=True) for name, m in layers]
    handles += [m.register_forward_pre_hook(remember, with_kwargs=True) for _, m in layers]

    def restore():
        set_rng_state(seed)
        for buffer, value in buffers:
            buffer.copy_(value)

    with no_grad():
        try:
            with autocast(device_type, enabled=False):
                model(*_copied(args), **_copied(kwargs))
            restore()
            state["run"] = "autocast"
            with lower():
                model(*_copied(args), **_copied(kwargs))
            if state["call"] < len(rows):
                raise ValueError(
                    f"amp.report: under autocast the model does not call {rows[state['call']].name}, which the float32 run did"
                )
        finally:
            restore()
            for handle in handles:
                handle.remove()
    if not rows:
        raise ValueError(f"amp.report: no layer of {type(model).__name__} returned a floating tensor")
    return Report(rows)
