"""torch._C._functorch: questions about wrapped tensors. vmap and grad call their function with ordinary ones."""


def is_batchedtensor(tensor):
    """False: there are no wrapped tensors."""
    return False


is_legacy_batchedtensor = is_gradtrackingtensor = is_batchedtensor


def get_unwrapped(tensor):
    """The tensor itself."""
    return tensor


def _add_batch_dim(tensor, batch_dim, level):
    """Raises: vmap has no tensors of its own."""
    raise NotImplementedError("torch._C._functorch: vmap calls its function once per slice; use torch.vmap or a loop")


_remove_batch_dim = _add_batch_dim
