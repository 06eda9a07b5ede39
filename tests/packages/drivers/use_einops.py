"""einops: rearranging, reducing, layers and einsum."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import Rearrange, Reduce

x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
assert torch.equal(rearrange(x, "a b c -> c (a b)"), x.permute(2, 0, 1).reshape(4, 6))
assert torch.equal(reduce(x, "a b c -> a c", "mean"), x.mean(1))
assert repeat(x, "a b c -> a b c d", d=2).shape == (2, 3, 4, 2)
assert torch.allclose(einsum(x, x, "a b c, a d c -> a b d"), x @ x.transpose(1, 2))
packed, shapes = pack([x, x[:, 0]], "a * c")
assert packed.shape == (2, 4, 4) and torch.equal(unpack(packed, shapes, "a * c")[1], x[:, 0])
net = torch.nn.Sequential(Rearrange("a b c -> a (b c)"), torch.nn.Linear(12, 6), Reduce("a (b c) -> a b", "max", c=2))
net(x).sum().backward()
assert x.grad is not None and net(x).shape == (2, 3)
