"""lion-pytorch: a step moves each parameter by the sign of its gradient."""

import torch
from lion_pytorch import Lion
from lion_pytorch.foreach import Lion as ForeachLion

for kind in (Lion, ForeachLion):
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = kind([p], lr=0.1, weight_decay=0.0)
    (p * torch.tensor([1.0, -1.0, 2.0])).sum().backward()
    optimizer.step()
    assert torch.allclose(p, torch.tensor([0.9, -1.9, 2.9])), p
