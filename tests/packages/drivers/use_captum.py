"""captum: attributions that add up to the difference of outputs."""

import torch
from captum.attr import DeepLift, GradientShap, IntegratedGradients, LayerGradCam, Occlusion, Saliency

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
x, zero = torch.randn(4, 3), torch.zeros(4, 3)
found, gap = IntegratedGradients(model).attribute(x, zero, target=1, n_steps=200, return_convergence_delta=True)
assert torch.allclose(found.sum(1), (model(x) - model(zero))[:, 1], atol=2e-2) and gap.abs().max() < 2e-2
lift = DeepLift(model).attribute(x, zero, target=0)
assert torch.allclose(lift.sum(1), (model(x) - model(zero))[:, 0], atol=1e-4)
leaf = x.clone().requires_grad_()
(slope,) = torch.autograd.grad(model(leaf)[:, 0].sum(), leaf)
assert torch.allclose(Saliency(model).attribute(x, target=0), slope.abs(), atol=1e-6)
assert Occlusion(model).attribute(x, sliding_window_shapes=(1,), target=0).shape == x.shape
assert GradientShap(model).attribute(x, torch.randn(5, 3), target=0).shape == x.shape
net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 2))
assert LayerGradCam(net, net[0]).attribute(torch.randn(1, 1, 8, 8), target=1).shape == (1, 1, 6, 6)
