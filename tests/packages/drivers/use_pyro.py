"""pyro: inference of a coin's bias by SVI and by MCMC."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO

pyro.set_rng_seed(0)
data = torch.tensor([1.0] * 14 + [0.0] * 6)


def model(data):
    bias = pyro.sample("bias", dist.Beta(10.0, 10.0))
    with pyro.plate("flips", len(data)):
        pyro.sample("obs", dist.Bernoulli(bias), obs=data)


def guide(data):
    a = pyro.param("a", torch.tensor(15.0), constraint=dist.constraints.positive)
    b = pyro.param("b", torch.tensor(15.0), constraint=dist.constraints.positive)
    pyro.sample("bias", dist.Beta(a, b))


svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO(num_particles=4))
losses = [svi.step(data) for _ in range(200)]
assert sum(losses[-20:]) < sum(losses[:20])
mean = (pyro.param("a") / (pyro.param("a") + pyro.param("b"))).item()
assert abs(mean - 24 / 40) < 0.06, mean  # the posterior is Beta(24, 16)
chain = MCMC(NUTS(model), num_samples=60, warmup_steps=40, disable_progbar=True)
chain.run(data)
assert abs(chain.get_samples()["bias"].mean().item() - 0.6) < 0.08
