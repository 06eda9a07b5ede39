"""botorch: Bayesian optimization of a parabola finds its maximum."""

import warnings

import torch
from botorch import fit_gpytorch_mll
from botorch.acquisition import LogExpectedImprovement, qExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.simplefilter("ignore")
torch.manual_seed(0)
bounds = torch.stack([torch.zeros(1), torch.ones(1)]).double()
x = torch.tensor([[0.05], [0.4], [0.95]], dtype=torch.float64)


def value(x):
    return -((x - 0.62) ** 2)


y = value(x)
for _ in range(4):
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    found, _ = optimize_acqf(LogExpectedImprovement(model, y.max()), bounds, q=1, num_restarts=3, raw_samples=16)
    x, y = torch.cat([x, found]), torch.cat([y, value(found)])
assert abs(x[y.argmax()].item() - 0.62) < 0.05, x
batch, _ = optimize_acqf(qExpectedImprovement(model, y.max()), bounds, q=2, num_restarts=2, raw_samples=8)
assert batch.shape == (2, 1) and ((batch >= 0) & (batch <= 1)).all()
