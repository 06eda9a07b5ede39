"""The form in which nodes hold the arguments of nn.functional: as in PyTorch, those with defaults by name and all of them, so
that passes find node.kwargs["inplace"]."""

import functools
import inspect

from .. import nn

_PARAMETERS = """
adaptive_max_pool1d: input, output_size, return_indices=False
adaptive_max_pool2d: input, output_size, return_indices=False
adaptive_max_pool3d: input, output_size, return_indices=False
affine_grid: theta, size, align_corners=None
alpha_dropout: input, p=0.5, training=False, inplace=False
batch_norm: input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05
binary_cross_entropy: input, target, weight=None, size_average=None, reduce=None, reduction='mean'
binary_cross_entropy_with_logits: input, target, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None
celu: input, alpha=1.0, inplace=False
cosine_embedding_loss: input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'
cross_entropy: input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0
ctc_loss: log_probs, targets, input_lengths, target_lengths, blank=0, reduction='mean', zero_infinity=False
dropout1d: input, p=0.5, training=True, inplace=False
dropout2d: input, p=0.5, training=True, inplace=False
dropout3d: input, p=0.5, training=True, inplace=False
dropout: input, p=0.5, training=True, inplace=False
elu: input, alpha=1.0, inplace=False
embedding: input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
embedding_bag: input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode='mean', sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None
feature_alpha_dropout: input, p=0.5, training=False, inplace=False
fold: input, output_size, kernel_size, dilation=1, padding=0, stride=1
fractional_max_pool2d: input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
fractional_max_pool3d: input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
gaussian_nll_loss: input, target, var, full=False, eps=1e-06, reduction='mean'
glu: input, dim=-1
grid_sample: input, grid, mode='bilinear', padding_mode='zeros', align_corners=None
group_norm: input, num_groups, weight=None, bias=None, eps=1e-05
gumbel_softmax: logits, tau=1, hard=False, eps=1e-10, dim=-1
hardsigmoid: input, inplace=False
hardswish: input, inplace=False
hardtanh: input, min_val=-1.0, max_val=1.0, inplace=False
hinge_embedding_loss: input, target, margin=1.0, size_average=None, reduce=None, reduction='mean'
huber_loss: input, target, reduction='mean', delta=1.0, weight=None
instance_norm: input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05
interpolate: input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, antialias=False
kl_div: input, target, size_average=None, reduce=None, reduction='mean', log_target=False
l1_loss: input, target, size_average=None, reduce=None, reduction='mean'
layer_norm: input, normalized_shape, weight=None, bias=None, eps=1e-05
leaky_relu: input, negative_slope=0.01, inplace=False
local_response_norm: input, size, alpha=0.0001, beta=0.75, k=1.0
log_softmax: input, dim=None, dtype=None
lp_pool1d: input, norm_type, kernel_size, stride=None, ceil_mode=False
lp_pool2d: input, norm_type, kernel_size, stride=None, ceil_mode=False
lp_pool3d: input, norm_type, kernel_size, stride=None, ceil_mode=False
margin_ranking_loss: input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'
max_pool1d: input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
max_pool2d: input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
max_pool3d: input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
max_unpool1d: input, indices, kernel_size, stride=None, padding=0, output_size=None
max_unpool2d: input, indices, kernel_size, stride=None, padding=0, output_size=None
max_unpool3d: input, indices, kernel_size, stride=None, padding=0, output_size=None
mish: input, inplace=False
mse_loss: input, target, size_average=None, reduce=None, reduction='mean', weight=None
multi_margin_loss: input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'
multilabel_margin_loss: input, target, size_average=None, reduce=None, reduction='mean'
multilabel_soft_margin_loss: input, target, weight=None, size_average=None, reduce=None, reduction='mean'
nll_loss: input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'
pad: input, pad, mode='constant', value=None
poisson_nll_loss: input, target, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction='mean'
relu6: input, inplace=False
relu: input, inplace=False
rms_norm: input, normalized_shape, weight=None, eps=None
rrelu: input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False
selu: input, inplace=False
silu: input, inplace=False
smooth_l1_loss: input, target, size_average=None, reduce=None, reduction='mean', beta=1.0
soft_margin_loss: input, target, size_average=None, reduce=None, reduction='mean'
softmax: input, dim=None, dtype=None
softmin: input, dim=None, dtype=None
threshold: input, threshold, value, inplace=False
triplet_margin_loss: anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, size_average=None, reduce=None, reduction='mean'
triplet_margin_with_distance_loss: anchor, positive, negative, distance_function=None, margin=1.0, swap=False, reduction='mean'
unfold: input, kernel_size, dilation=1, padding=0, stride=1
"""


@functools.lru_cache(None)
def _signatures():
    """function -> its signature."""
    lines = (line.split(": ", 1) for line in _PARAMETERS.strip().splitlines())
    return {
        getattr(nn.functional, name): inspect.signature(eval(f"lambda {parameters}: 0", {}))
        for name, parameters in lines
    }


def normalized(function, args, kwargs):
    """The arguments in that form; as they are for other functions."""
    signature = _signatures().get(function)
    if signature is None:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs
    bound.apply_defaults()
    required = [n for n, p in signature.parameters.items() if p.default is inspect.Parameter.empty]
    values = bound.arguments
    return tuple(values[n] for n in required), {n: v for n, v in values.items() if n not in required}
