"""efficientnet-pytorch: a network and its features."""

import torch
from efficientnet_pytorch import EfficientNet

torch.manual_seed(0)
model = EfficientNet.from_name("efficientnet-b0", num_classes=5)
x = torch.randn(2, 3, 64, 64)
out = model(x)
out.sum().backward()
assert out.shape == (2, 5) and model._conv_stem.weight.grad.abs().sum() > 0
assert model.eval().extract_features(x).shape == (2, 1280, 2, 2)
