"""Modules that take the number of input features from the first input they see."""

from . import _modules
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Builds the module when it is first called or loaded; until then its tensors have no shape."""

    def has_uninitialized_params(self):
        """Whether the module has not been called yet."""
        return any(map(is_lazy, [*self._parameters.values(), *self._buffers.values()]))

    def reset_parameters(self):
        if not self.has_uninitialized_params():
            super().reset_parameters()

    def __call__(self, *args, **kwargs):
        if self.has_uninitialized_params():
            self._complete(args[0] if args else kwargs["input"])
        if not self.has_uninitialized_params():
            self.__class__ = self.cls_to_become
        return super().__call__(*args, **kwargs) if isinstance(self, LazyModuleMixin) else self(*args, **kwargs)

    def _complete(self, input):
        """Gives the tensors their shapes."""
        if input.dim() <= self.channel_dim:
            raise RuntimeError(
                f"{type(self).__name__}: cannot tell the number of features from shape {list(input.shape)}"
            )
        features = input.shape[self.channel_dim]
        model = self.cls_to_become(features, *self._lazy_arguments, **self._lazy_options)
        for table, own in ((model._parameters, self._parameters), (model._buffers, self._buffers)):
            for name, made in table.items():
                if made is not None and is_lazy(own[name]):
                    own[name].materialize(made.shape, dtype=own[name].dtype)
                    own[name].data.copy_(made.data)
        for name in self._lazy_names:
            setattr(self, name, getattr(model, name))


def _lazy(cls, channel_dim, names):
    """The lazy form of a module whose first argument is the number of input features."""

    def __init__(self, *args, device=None, dtype=None, **kwargs):
        cls.__init__(self, 0, *args, device=device, dtype=dtype, **kwargs)
        self._lazy_arguments, self._lazy_options = args, {**kwargs, "device": device, "dtype": dtype}
        for name, value in list(self._parameters.items()):
            if value is not None:
                self._parameters[name] = UninitializedParameter(device=device, dtype=dtype)
        for name, value in list(self._buffers.items()):
            if value is not None and name != "num_batches_tracked":
                self._buffers[name] = UninitializedBuffer(device=device, dtype=dtype)

    text = f"{cls.__name__} that takes {names[0]} from the first input."
    return type(
        f"Lazy{cls.__name__}",
        (LazyModuleMixin, cls),
        {
            "__init__": __init__,
            "__doc__": text,
            "__module__": __name__,
            "cls_to_become": cls,
            "channel_dim": channel_dim,
            "_lazy_names": names,
        },
    )


LazyLinear = _lazy(_modules.Linear, -1, ("in_features",))
for _n in (1, 2, 3):
    for _kind in ("Conv", "ConvTranspose"):
        _made = _lazy(getattr(_modules, f"{_kind}{_n}d"), -_n - 1, ("in_channels", "_bound"))
        globals()[_made.__name__] = _made
    for _kind in ("BatchNorm", "InstanceNorm"):
        _made = _lazy(getattr(_modules, f"{_kind}{_n}d"), 1, ("num_features",))
        globals()[_made.__name__] = _made
