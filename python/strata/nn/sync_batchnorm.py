"""SyncBatchNorm: the statistics of one process are those of the whole batch, so it is a batch norm of any rank."""

from .modules import _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """A batch norm for inputs of two or more dimensions. Strata trains in one process: there is nobody to share with."""

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        process_group=None,
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with its batch norms replaced; parameters and buffers stay the same objects."""
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats)
            made.training = module.training
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            return made
        for name, child in module.named_children():
            module.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return module
