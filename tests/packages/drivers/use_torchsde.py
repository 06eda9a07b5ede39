"""torchsde: the mean of a geometric Brownian motion, and gradients."""

import torch
import torchsde

torch.manual_seed(0)


class Motion(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = torch.nn.Parameter(torch.tensor(0.5))

    def f(self, t, y):
        return self.drift * y

    def g(self, t, y):
        return 0.2 * y


model, start = Motion(), torch.ones(400, 1)
path = torchsde.sdeint(model, start, torch.linspace(0, 1, 3), dt=0.05, method="milstein")
assert path.shape == (3, 400, 1) and abs(path[-1].mean().item() - 1.6487) < 0.1
path[-1].mean().backward()
assert model.drift.grad > 0
