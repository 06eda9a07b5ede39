"""The modules under PyTorch's file names: strata.nn.modules.conv.Conv2d is strata.nn.Conv2d.

A file is a module object made here, whose names are looked up in strata.nn when they are first used.
"""

import copy
import sys
import types

from .. import _global_hooks, _modules
from .._global_hooks import *
from .._state import IncompatibleKeys as _IncompatibleKeys
from ..module import Module

_FILES = {
    "activation": "ReLU ReLU6 Hardtanh Sigmoid Hardsigmoid LogSigmoid Tanh Tanhshrink SiLU Mish Hardswish ELU CELU SELU "
    "GELU GLU Hardshrink Softshrink LeakyReLU PReLU Softplus Softsign Threshold Softmax Softmax2d LogSoftmax Softmin "
    "RReLU MultiheadAttention",
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d "
    "_BatchNorm _NormBase",
    "channelshuffle": "ChannelShuffle",
    "container": "Sequential ModuleList ModuleDict ParameterList ParameterDict",
    "conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d "
    "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d _ConvNd _ConvTransposeNd",
    "distance": "CosineSimilarity PairwiseDistance",
    "dropout": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout _DropoutNd",
    "flatten": "Flatten Unflatten",
    "fold": "Fold Unfold",
    "instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
    "LazyInstanceNorm3d _InstanceNorm",
    "lazy": "LazyModuleMixin",
    "linear": "Identity Linear Bilinear LazyLinear NonDynamicallyQuantizableLinear",
    "loss": "L1Loss MSELoss SmoothL1Loss HuberLoss NLLLoss CrossEntropyLoss BCELoss BCEWithLogitsLoss KLDivLoss "
    "PoissonNLLLoss GaussianNLLLoss HingeEmbeddingLoss MarginRankingLoss CosineEmbeddingLoss TripletMarginLoss "
    "TripletMarginWithDistanceLoss MultiMarginLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss SoftMarginLoss CTCLoss "
    "_Loss _WeightedLoss",
    "module": "Module _IncompatibleKeys _EXTRA_STATE_KEY_SUFFIX " + " ".join(_global_hooks.__all__),
    "normalization": "LayerNorm GroupNorm RMSNorm LocalResponseNorm CrossMapLRN2d",
    "padding": "_ConstantPadNd _ReflectionPadNd _ReplicationPadNd _CircularPadNd ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d ReflectionPad2d "
    "ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d CircularPad2d CircularPad3d",
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "pooling": "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxUnpool1d "
    "MaxUnpool2d MaxUnpool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
    "AdaptiveMaxPool3d FractionalMaxPool2d FractionalMaxPool3d _MaxPoolNd _AvgPoolNd _LPPoolNd _MaxUnpoolNd "
    "_AdaptiveAvgPoolNd _AdaptiveMaxPoolNd",
    "rnn": "RNNCellBase RNNBase RNN LSTM GRU RNNCell LSTMCell GRUCell",
    "sparse": "Embedding EmbeddingBag",
    "transformer": "Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder TransformerDecoderLayer "
    "_get_activation_fn _get_clones",
    "upsampling": "Upsample UpsamplingNearest2d UpsamplingBilinear2d",
    "utils": "_single _pair _triple _quadruple _ntuple consume_prefix_in_state_dict_if_present",
}
HOME = {name: file for file, names in _FILES.items() for name in names.split()}  # the file of each name


# --- PyTorch's common base classes -----------------------------------------------------------------------------------------


class _Family(type):
    """A base class that counts existing classes as its own: isinstance(BatchNorm2d(3), _BatchNorm)."""

    def __instancecheck__(cls, thing):
        return cls.__subclasscheck__(type(thing))

    def __subclasscheck__(cls, kind):
        members = cls.__dict__.get("_members")
        return super().__subclasscheck__(kind) or (members is not None and issubclass(kind, members()))


def _of(*names):
    return staticmethod(lambda: tuple(getattr(_modules, name) for name in names))


class _BatchNorm(_modules.BatchNorm2d, metaclass=_Family):
    """Any batch norm. A subclass accepts inputs of any number of dimensions and may check them in _check_input_dim."""

    _members = _of("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")

    def _check_input_dim(self, input):
        pass

    def forward(self, input):
        self._check_input_dim(input)
        self._ranks = [input.dim()]
        return super().forward(input)


class _InstanceNorm(_modules.InstanceNorm2d, metaclass=_Family):
    """Any instance norm."""

    _members = _of("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")


class _NormBase(Module, metaclass=_Family):
    """Any batch or instance norm."""

    _members = _of("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")


class _ConvNd(Module, metaclass=_Family):
    """Any convolution."""

    _members = _of("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")


class _ConvTransposeNd(Module, metaclass=_Family):
    """Any transposed convolution."""

    _members = _of("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")


def _any_of(name, what, *members):
    """A base class without behavior of its own, for isinstance."""
    return _Family(name, (Module,), {"__doc__": f"Any {what}.", "__module__": __name__, "_members": _of(*members)})


def _ranks(kind):
    return [f"{kind}{n}d" for n in (1, 2, 3)]


_MaxPoolNd = _any_of("_MaxPoolNd", "max pool", *_ranks("MaxPool"))
_AvgPoolNd = _any_of("_AvgPoolNd", "average pool", *_ranks("AvgPool"))
_LPPoolNd = _any_of("_LPPoolNd", "power-average pool", *_ranks("LPPool"))
_MaxUnpoolNd = _any_of("_MaxUnpoolNd", "max unpool", *_ranks("MaxUnpool"))
_AdaptiveAvgPoolNd = _any_of("_AdaptiveAvgPoolNd", "adaptive average pool", *_ranks("AdaptiveAvgPool"))
_AdaptiveMaxPoolNd = _any_of("_AdaptiveMaxPoolNd", "adaptive max pool", *_ranks("AdaptiveMaxPool"))
_ConstantPadNd = _any_of("_ConstantPadNd", "padding with a constant", *_ranks("ConstantPad"), *_ranks("ZeroPad"))
_ReflectionPadNd = _any_of("_ReflectionPadNd", "padding by reflection", *_ranks("ReflectionPad"))
_ReplicationPadNd = _any_of("_ReplicationPadNd", "padding with the edge", *_ranks("ReplicationPad"))
_CircularPadNd = _any_of("_CircularPadNd", "circular padding", *_ranks("CircularPad"))


class _DropoutNd(Module, metaclass=_Family):
    """Any dropout. A subclass has p and inplace."""

    _members = _of("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class _Loss(Module, metaclass=_Family):
    """Any loss. A subclass has reduction."""

    _members = _of(
        *(n for n in _FILES["loss"].split() if not n.startswith("_") and n != "TripletMarginWithDistanceLoss")
    )

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        from .._support import legacy_reduction

        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight per class."""

    _members = _of("NLLLoss", "CrossEntropyLoss", "BCELoss", "MultiMarginLoss", "MultiLabelSoftMarginLoss")

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# --- the files ---------------------------------------------------------------------------------------------------------------


def _ntuple(n):
    """A function that repeats a number n times and leaves an iterable as it is."""
    return lambda value: tuple(value) if hasattr(value, "__iter__") else (value,) * n


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Removes a prefix from the names of a state_dict, in place: "module." of DataParallel."""
    for tables in (state_dict, getattr(state_dict, "_metadata", None) or {}):
        for key in list(tables):
            if key.startswith(prefix):
                tables[key[len(prefix) :]] = tables.pop(key)
            elif key and key == prefix[:-1]:
                tables[""] = tables.pop(key)


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


def _get_activation_fn(activation):
    """The function of the name that a transformer layer takes."""
    from .. import functional

    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(functional, activation)


def _get_clones(module, N):
    """A list of N copies of the module."""
    from ..containers import ModuleList

    return ModuleList(copy.deepcopy(module) for _ in range(N))


class NonDynamicallyQuantizableLinear(_modules.Linear):
    """A Linear: the name that PyTorch's attention gives to its last one."""


class _File(types.ModuleType):
    """A file of torch.nn.modules."""

    def __getattr__(self, name):
        if name in globals() and name in HOME:
            value = globals()[name]
        elif name.startswith("__"):
            raise AttributeError(name)
        else:
            value = _other(self, name)
        self.__dict__[name] = value
        return value


def _other(module, name):
    from ... import nn

    if name in ("F", "init", "Parameter", "Tensor", "torch", "math", "warnings"):  # what those files import themselves
        import importlib

        return {"F": nn.functional, "Parameter": nn.Parameter, "init": nn.init, "Tensor": nn.Parameter.__base__}.get(
            name
        ) or importlib.import_module("strata" if name == "torch" else name)
    try:
        return getattr(nn, name)
    except AttributeError:
        raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'") from None


for _file, _names in _FILES.items():
    _made = _File(f"{__name__}.{_file}", f"The modules of torch.nn.modules.{_file}.")
    _made.__all__ = [n for n in _names.split() if not n.startswith("_")]
    _made.__package__ = __name__
    sys.modules[_made.__name__] = _made
    globals()[_file] = _made


def use_torch_names():
    """Makes the classes print as torch's: <class 'torch.nn.modules.linear.Linear'>."""
    from ... import nn

    for name, file in HOME.items():
        kind = globals().get(name) or getattr(nn, name, None)
        if isinstance(kind, type):
            kind.__module__ = f"torch.nn.modules.{file}"


def __getattr__(name):
    if name not in HOME:
        raise AttributeError(f"module 'strata.nn.modules' has no attribute '{name}'")
    return getattr(sys.modules[f"{__name__}.{HOME[name]}"], name)
