"""torch.functional: the functions of torch that are not single ops."""

import strata

_NAMES = """atleast_1d atleast_2d atleast_3d align_tensors broadcast_shapes broadcast_tensors cartesian_prod block_diag cdist
chain_matmul einsum lu norm meshgrid split tensordot unique unique_consecutive stft unravel_index""".split()
__all__ = [name for name in _NAMES if hasattr(strata, name)]
globals().update({name: getattr(strata, name) for name in __all__})
