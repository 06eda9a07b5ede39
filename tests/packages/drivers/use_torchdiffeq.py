"""torchdiffeq: solutions with known values, and gradients by the adjoint method."""

import torch
from torchdiffeq import odeint, odeint_adjoint


class Decay(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, t, y):
        return -self.rate * y


times, start = torch.linspace(0, 2, 5, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
for method in ("dopri5", "dopri8", "rk4", "adaptive_heun", "implicit_adams"):
    options = dict(options={"step_size": 0.01}) if method in ("rk4", "implicit_adams") else {}
    found = odeint(Decay(), start, times, method=method, rtol=1e-7, atol=1e-9, **options)
    assert torch.allclose(found[:, 0], torch.exp(-0.7 * times), atol=1e-5), method
model = Decay()
odeint_adjoint(model, start, times, rtol=1e-8, atol=1e-10)[-1].sum().backward()
assert abs(model.rate.grad.item() - (-3 * 2 * torch.exp(torch.tensor(-1.4)).item())) < 1e-4
