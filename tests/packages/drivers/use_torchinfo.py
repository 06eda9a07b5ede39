"""torchinfo: the layers and the numbers of parameters and products of a network."""

import torch
from torchinfo import summary

net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10))
found = summary(net, (2, 3, 8, 8), verbose=0)
assert found.total_params == 3 * 8 * 9 + 8 + 288 * 10 + 10
assert found.total_mult_adds == 2 * ((3 * 8 * 9 + 8) * 36 + 288 * 10 + 10)
assert "Conv2d" in str(found)
