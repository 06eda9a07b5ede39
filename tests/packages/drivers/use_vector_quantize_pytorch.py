"""vector-quantize-pytorch: codes are the nearest entries, and gradients pass through."""

import torch
from vector_quantize_pytorch import FSQ, ResidualVQ, VectorQuantize

torch.manual_seed(0)
quantizer = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
x = torch.randn(2, 10, 8, requires_grad=True)
codes, indices, loss = quantizer(x)
(codes.sum() + loss).backward()
assert codes.shape == x.shape and indices.shape == (2, 10) and x.grad.abs().sum() > 0
quantizer.eval()
codes, indices, _ = quantizer(x)
nearest = torch.cdist(x.reshape(-1, 8), quantizer.codebook).argmin(1)
assert indices.reshape(-1).tolist() == nearest.tolist()
assert ResidualVQ(dim=8, codebook_size=8, num_quantizers=3)(x)[1].shape == (2, 10, 3)
assert FSQ(levels=[4, 4, 4])(torch.randn(2, 5, 3))[0].shape == (2, 5, 3)
