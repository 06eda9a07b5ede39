"""torch.nn.utils.stateless: the older name of func.functional_call."""

from ...func import functional_call

__all__ = ["functional_call"]
