"""User-defined functions with their own gradient."""

from .. import _C


class _Packed:
    """A saved tensor as saved_tensors_hooks keeps it."""

    def __init__(self, tensor, pack, unpack):
        plain = tensor.detach()
        version = plain._version
        self.packed, self._unpack, self._edge = pack(plain), unpack, _C._edge_of(tensor)
        if plain._version != version:
            raise RuntimeError("A saved tensor pack hook is modifying its input in place.")

    def unpack(self):
        return _C._with_edge(self._unpack(self.packed), self._edge)


class FunctionCtx:
    """Passes data from forward to backward."""

    def __init__(self):
        self._saved = ()
        self._freed = False
        self.needs_input_grad = ()
        self._non_differentiable = ()
        self._dirty = ()
        self._materialize = True

    def save_for_backward(self, *tensors):
        """Keeps tensors for backward; writing to one in place before then is an error."""
        self._saved = tuple((t, None if t is None else t._version, None) for t in tensors)

    @property
    def saved_tensors(self):
        if self._freed:
            raise RuntimeError(
                "Trying to backward through the graph a second time: the saved tensors have been freed. Pass retain_graph=True to the first backward()."
            )
        for t, version, _ in self._saved:
            if version is not None and t._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"a tensor of shape {list(t.shape)} was saved at version {version}, it is now at version {t._version}"
                )
        tensors = [(t.unpack() if isinstance(t, _Packed) else t, place) for t, _, place in self._saved]
        return tuple(t if place is None else _C._as_output(t, place) for t, place in tensors)

    def _detach_outputs(self, outputs):
        """A saved output is kept without its history; otherwise it and the graph would keep each other alive."""
        places = {id(t): place for place, t in enumerate(outputs) if t is not None}
        self._saved = tuple(
            (t.detach(), version, places[id(t)]) if id(t) in places else (t, version, None)
            for t, version, _ in self._saved
        )

    def _pack(self):
        """Under saved_tensors_hooks: keeps what the hook returns."""
        hooks = _C._saved_hooks()
        if hooks is not None:
            self._saved = tuple(
                (t, version, place) if t is None else (_Packed(t, *hooks), None, place)
                for t, version, place in self._saved
            )

    def mark_dirty(self, *tensors):
        """Declares inputs that forward wrote to in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Declares outputs that carry no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value):
        """False: backward receives None for outputs without a gradient, instead of zeros."""
        self._materialize = value


class _Backward:
    """Called by the engine with the gradients of the outputs."""

    def __init__(self, function, ctx, positions, count, outputs):
        self.function, self.ctx, self.positions, self.count = function, ctx, positions, count
        # Shape, dtype and device of zeros for each output; None if it is not a tensor.
        self.likes = [(tuple(t.shape), t.dtype, t.device) if isinstance(t, _C.Tensor) else None for t in outputs]

    def __call__(self, grads, create_graph):
        if self.ctx._materialize:
            grads = tuple(
                _C.ops["zeros"](like[0], dtype=like[1], device=like[2]) if g is None and like else g
                for g, like in zip(grads, self.likes, strict=True)
            )
        result = self.function.backward(self.ctx, *grads)
        result = result if isinstance(result, tuple) else (result,)
        if len(result) > self.count and any(r is not None for r in result[self.count :]) or len(result) < self.count:
            raise RuntimeError(
                f"function {self.function.__name__}Backward returned an incorrect number of gradients (expected {self.count}, got {len(result)})"
            )
        return tuple(result[i] for i in self.positions)

    def release(self):
        """The graph is freed: releases saved values."""
        self.ctx._freed = bool(self.ctx._saved)
        self.ctx._saved = ()


class Function:
    """Subclass it with static methods forward(ctx, *args) and backward(ctx, *grads); call Subclass.apply(*args)."""

    @staticmethod
    def forward(ctx, *args, **kwargs):
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("a Function needs a static method backward(ctx, *grads) to be differentiated")

    @classmethod
    def apply(cls, *args, **kwargs):
        if _C._function_modes():
            from .._vmap.functions import apply_function, current_level

            level = current_level()
            if level is not None:
                return apply_function(level, cls, args, kwargs)
        ctx = FunctionCtx()
        positions = [i for i, a in enumerate(args) if isinstance(a, _C.Tensor)]
        ctx.needs_input_grad = tuple(isinstance(a, _C.Tensor) and a.requires_grad for a in args)
        recording = _C.is_grad_enabled() and any(ctx.needs_input_grad)
        before = _C._set_grad_enabled(False)
        try:
            if "setup_context" in cls.__dict__:
                out = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, out)
            else:
                out = cls.forward(ctx, *args, **kwargs)
        finally:
            _C._set_grad_enabled(before)
        _C._count_writes(ctx._dirty)
        several = isinstance(out, tuple)
        outs = list(out) if several else [out]
        inputs = [args[i] for i in positions]
        if not recording:  # changes to a returned input's object must not affect the input
            written = {id(t) for t in ctx._dirty}
            same = {id(t) for t in inputs} - written
            outs = [t.detach() if id(t) in same else t for t in outs]
            return tuple(outs) if several else outs[0]
        skip = {id(t) for t in ctx._non_differentiable}
        dirty = [t for t in ctx._dirty if id(t) not in skip]
        recorded = [t if isinstance(t, _C.Tensor) and id(t) not in skip else None for t in outs]
        ctx._dirty = ctx._non_differentiable = ()
        backward = _Backward(cls, ctx, positions, len(args), outs)
        recorded = _C._record_function(backward, cls.__name__ + "Backward", inputs, recorded, dirty)
        ctx._detach_outputs(recorded)
        ctx._pack()
        # An input passed through is another object now, a view of it.
        outs = [t if r is None else r for t, r in zip(outs, recorded, strict=True)]
        return tuple(outs) if several else outs[0]


def once_differentiable(function):
    """Marks a backward that must not be differentiated again."""

    def wrapped(ctx, *args):
        before = _C._set_grad_enabled(False)
        try:
            return function(ctx, *args)
        finally:
            _C._set_grad_enabled(before)

    return wrapped


__all__ = ["Function", "FunctionCtx", "once_differentiable"]
