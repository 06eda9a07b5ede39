"""torch._C._functorch: questions about the tensors of vmap(). grad() has ordinary ones."""

from .._vmap.functions import is_batched as is_batchedtensor


def is_gradtrackingtensor(tensor):
    """False: grad() calls its function with ordinary tensors."""
    return False


is_legacy_batchedtensor = is_gradtrackingtensor


def get_unwrapped(tensor):
    """All slices of a batched tensor, the batch first; another tensor itself."""
    return tensor._held if is_batchedtensor(tensor) else tensor


def _add_batch_dim(tensor, batch_dim, level):
    """Raises: batched tensors exist only inside of vmap()."""
    raise NotImplementedError("torch._C._functorch: batched tensors are made by torch.vmap; call it instead")


_remove_batch_dim = _add_batch_dim
