"""opt-einsum: contractions of several tensors, with gradients."""

import opt_einsum
import torch

a, b, c = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, 6), torch.randn(6, 3)
got = opt_einsum.contract("ij,jkl,li->k", a, b, c)
want = torch.einsum("ij,jkl,li->k", a, b, c)
assert torch.allclose(got, want, atol=1e-4)
got.sum().backward()
assert a.grad.shape == a.shape
expression = opt_einsum.contract_expression("ij,jkl,li->k", a.shape, b.shape, c.shape)
assert torch.allclose(expression(a, b, c), want, atol=1e-4)
assert torch.allclose(opt_einsum.contract("ab,bc,cd->ad", *[torch.eye(3)] * 3), torch.eye(3))
