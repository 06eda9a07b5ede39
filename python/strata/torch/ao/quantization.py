"""torch.ao.quantization: quantize_dynamic() rounds the weights of linear and recurrent layers. Static quantization, which needs
quantized tensors, is missing: what belongs to it raises when it is called."""

import copy

from ... import nn
from .._missing import missing
from ._types import float16, qint8, quint4x2, quint8
from .nn.quantized import dynamic

__all__ = [
    "QConfig",
    "default_dynamic_qconfig",
    "float16_dynamic_qconfig",
    "get_default_dynamic_quant_module_mappings",
    "per_channel_dynamic_qconfig",
    "quantize_dynamic",
]


class QConfig:
    """How weights are rounded: their dtype."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __repr__(self):
        return f"QConfig(dtype={self.dtype})"


default_dynamic_qconfig = per_channel_dynamic_qconfig = QConfig(qint8)
float16_dynamic_qconfig = QConfig(float16)


def get_default_dynamic_quant_module_mappings():
    """The layers that quantize_dynamic() replaces, and their replacements."""
    names = ("Linear", "LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell")
    return {getattr(nn, name): getattr(dynamic, name) for name in names}


def _config_of(dtype):
    if dtype in (quint8, quint4x2):
        raise NotImplementedError(
            f"quantize_dynamic: embeddings with weights of dtype {dtype} are not available; use dtype=qint8 for linear and "
            "recurrent layers, or strata.quantize_int8() for single matrices"
        )
    if dtype not in (qint8, float16):
        raise ValueError(f"quantize_dynamic: dtype must be torch.qint8 or torch.float16, found {dtype}")
    return QConfig(dtype)


def _by_key(qconfig_spec, dtype, mapping):
    """A dict from types and names of modules to their QConfig, None for those that stay."""
    if qconfig_spec is None:
        return dict.fromkeys(mapping, _config_of(dtype))
    if not isinstance(qconfig_spec, dict):
        return dict.fromkeys(qconfig_spec, _config_of(dtype))
    for key, config in qconfig_spec.items():
        if config is not None and not isinstance(config, QConfig):
            raise TypeError(
                f"quantize_dynamic: qconfig_spec[{key!r}] must be default_dynamic_qconfig, float16_dynamic_qconfig or None, "
                f"found {type(config).__name__}"
            )
    return qconfig_spec


def _replace(module, spec, mapping, name, inherited):
    for child_name, child in module.named_children():
        full = f"{name}.{child_name}" if name else child_name
        config = spec.get(full, spec.get(type(child), inherited))
        if config is not None and type(child) in mapping:
            made = _quantized(mapping[type(child)], child, config)
            setattr(module, child_name, made)
        else:
            _replace(child, spec, mapping, full, config)


def _quantized(kind, module, config):
    if issubclass(kind, dynamic._Weights):
        return kind.from_float(module, config.dtype).eval()
    return kind.from_float(module)


def quantize_dynamic(model, qconfig_spec=None, dtype=qint8, mapping=None, inplace=False):
    """A copy of the model in eval mode whose linear and recurrent layers have weights of 8 bits, with a scale per row.

    qconfig_spec chooses layers by type or name: a set, or a dict from them to a QConfig or None. dtype is qint8 or float16. Inputs
    and sums stay floats, so results are nearer to the model's than PyTorch's, which rounds inputs too."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"quantize_dynamic: expected a Module, found {type(model).__name__}")
    mapping = get_default_dynamic_quant_module_mappings() if mapping is None else mapping
    spec = _by_key(qconfig_spec, dtype, mapping)
    made = model if inplace else copy.deepcopy(model)
    made.eval()
    config = spec.get("", spec.get(type(made)))
    if config is not None and type(made) in mapping:
        return _quantized(mapping[type(made)], made, config)
    _replace(made, spec, mapping, "", config)
    return made


_ABSENT = frozenset(
    """DeQuantStub FakeQuantize HistogramObserver MinMaxObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver QConfigMapping
    QuantStub QuantWrapper convert default_qconfig default_qat_qconfig fuse_modules fuse_modules_qat get_default_qat_qconfig
    get_default_qconfig get_default_qconfig_mapping prepare prepare_qat quantize quantize_qat swap_module propagate_qconfig_
    disable_observer enable_observer disable_fake_quant enable_fake_quant float_qparams_weight_only_qconfig observer qconfig
    quantize_fx""".split()
)


def __getattr__(name):
    if name in _ABSENT:
        return missing(f"torch.ao.quantization.{name}")
    raise AttributeError(f"module 'torch.ao.quantization' has no attribute {name!r}")
