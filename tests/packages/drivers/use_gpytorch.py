"""gpytorch: an exact Gaussian process learns a sine, and predicts with its uncertainty."""

import gpytorch
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 25)
y = torch.sin(6 * x) + 0.05 * torch.randn(25)


class Process(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(likelihood)
model.train(), likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective, losses = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model), []
for _ in range(40):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] - 0.5, (losses[0], losses[-1])
model.eval(), likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    found = likelihood(model(torch.tensor([0.25, 0.5, 3.0])))
assert torch.allclose(found.mean[:2], torch.sin(torch.tensor([1.5, 3.0])), atol=0.15)
assert found.variance[2] > 5 * found.variance[0]
