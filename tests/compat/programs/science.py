"""Small programs of science and statistics."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from common import classes, filled, fit, numbers, program, uniform
from torch.distributions import Beta, Dirichlet, MixtureSameFamily, Normal, Poisson
from torch.distributions import Categorical as Choice


@program
def time_sequence_prediction():
    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 12), nn.LSTMCell(12, 12), nn.Linear(12, 1)

        def forward(self, x, future=0):
            outputs, n = [], x.size(0)
            h1, c1, h2, c2 = (torch.zeros(n, 12, dtype=torch.double) for _ in range(4))
            for step in x.split(1, dim=1):
                h1, c1 = self.lstm1(step, (h1, c1))
                h2, c2 = self.lstm2(h1, (h2, c2))
                output = self.linear(h2)
                outputs += [output]
            for _ in range(future):
                h1, c1 = self.lstm1(output, (h1, c1))
                h2, c2 = self.lstm2(h1, (h2, c2))
                output = self.linear(h2)
                outputs += [output]
            return torch.cat(outputs, dim=1)

    seq = filled(Sequence().double())
    data = torch.from_numpy(np.sin((np.arange(20)[None] + 3 * np.arange(4)[:, None]) / 3.0))
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.5, max_iter=4)
    losses = []
    for _ in range(2):

        def closure():
            optimizer.zero_grad()
            loss = criterion(seq(data[1:, :-1]), data[1:, 1:])
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
        with torch.no_grad():
            losses.append(criterion(seq(data[:1, :-1], future=3)[:, :-3], data[:1, 1:]).item())
    return losses


@program
def polynomial_regression():
    W_target, b_target = numbers(4, 1) * 5, numbers(1, seed=1) * 5

    def make_features(x):
        x = x.unsqueeze(1)
        return torch.cat([x**i for i in range(1, 5)], 1)

    fc, losses = filled(nn.Linear(W_target.size(0), 1)), []
    for step in range(5):
        x = make_features(numbers(32, seed=step).clamp(-1.5, 1.5))
        y = x.mm(W_target) + b_target.item()
        fc.zero_grad()
        output = F.smooth_l1_loss(fc(x), y)
        output.backward()
        for param in fc.parameters():
            param.data.add_(-0.1 * param.grad)
        losses.append(output.item())
    return losses


@program
def physics_informed():
    net = filled(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)))
    t = torch.linspace(0, 2, 20).view(-1, 1).requires_grad_(True)

    def loss():
        u = net(t)
        du = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
        ddu = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)[0]
        residual = ddu + 4 * u  # an oscillator
        start = net(torch.zeros(1, 1))
        return residual.pow(2).mean() + (start - 1).pow(2).sum()

    return fit(torch.optim.Adam(net.parameters(), 5e-3), loss)


@program
def neural_ode():
    f = filled(nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)))
    times = torch.linspace(0, 1, 6)
    start = torch.tensor([[2.0, 0.0]])
    true = torch.stack([torch.tensor([2 * math.cos(t), 2 * math.sin(t)]) for t in times.tolist()])

    def rk4(y, h):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def loss():
        y, path = start, [start]
        for h in (times[1:] - times[:-1]).tolist():
            y = rk4(y, h)
            path.append(y)
        return (torch.cat(path) - true).abs().mean()

    return fit(torch.optim.RMSprop(f.parameters(), 1e-3), loss)


@program
def gaussian_process():
    x = torch.linspace(0, 3, 12).double()
    y = torch.sin(2 * x)
    raw = torch.zeros(3, dtype=torch.double, requires_grad=True)

    def loss():
        scale, length, noise = F.softplus(raw)
        k = (
            scale * torch.exp(-0.5 * (x[:, None] - x[None]) ** 2 / length**2)
            + (noise * 0.1 + 1e-4) * torch.eye(12).double()
        )
        chol = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y.unsqueeze(1), chol).squeeze(1)
        return 0.5 * y @ alpha + chol.diagonal().log().sum() + 6 * math.log(2 * math.pi)

    return fit(torch.optim.Adam([raw], 0.1), loss)


@program
def logistic_regression():
    x = numbers(40, 3)
    y = (x @ torch.tensor([1.0, -2.0, 0.5]) > 0).float()
    w, b = torch.zeros(3, requires_grad=True), torch.zeros((), requires_grad=True)
    losses = fit(torch.optim.SGD([w, b], lr=1.0), lambda: F.binary_cross_entropy_with_logits(x @ w + b, y), 8)
    accuracy = ((x @ w + b > 0).float() == y).float().mean()
    return [*losses, accuracy.item()]


@program
def k_means():
    x = torch.cat([numbers(20, 2, seed=s, scale=0.3) + c for s, c in enumerate((0.0, 3.0, -3.0))])
    centres, costs = x[[0, 25, 50]].clone(), []
    for _ in range(4):
        distance = torch.cdist(x, centres)
        nearest = distance.argmin(1)
        centres = torch.stack([x[nearest == k].mean(0) for k in range(3)])
        costs.append(distance.gather(1, nearest[:, None]).pow(2).mean().item())
    return [*costs, *torch.bincount(nearest, minlength=3).float().tolist()]


@program
def matrix_factorization():
    users, items = filled(nn.Embedding(10, 4), 1), filled(nn.Embedding(8, 4), 2)
    u, i, r = classes(10, 30), classes(8, 30, seed=1), uniform(30) * 4 + 1
    bias = nn.Parameter(torch.zeros(10))
    params = [*users.parameters(), *items.parameters(), bias]

    def loss():
        return F.mse_loss((users(u) * items(i)).sum(1) + bias[u] + 3, r)

    return fit(torch.optim.Adam(params, 5e-2, weight_decay=1e-4), loss)


@program
def principal_components():
    x = numbers(30, 5) @ torch.diag(torch.tensor([3.0, 2.0, 1.0, 0.5, 0.1]))
    centred = x - x.mean(0)
    U, S, Vh = torch.linalg.svd(centred, full_matrices=False)
    values = torch.linalg.eigvalsh(centred.T @ centred / 29).flip(0)
    back = (U[:, :2] * S[:2]) @ Vh[:2]
    return [*S.tolist(), *values.tolist(), (centred - back).pow(2).mean().item(), torch.cov(x.T).trace().item()]


@program
def fourier_operator():
    class SpectralConv(nn.Module):
        def __init__(self, channels, modes):
            super().__init__()
            self.modes = modes
            self.weight = nn.Parameter(numbers(channels, channels, modes, 2, scale=0.2))

        def forward(self, x):
            ft = torch.fft.rfft(x)
            out = torch.zeros_like(ft)
            out[:, :, : self.modes] = torch.einsum(
                "bix,iox->box", ft[:, :, : self.modes], torch.view_as_complex(self.weight)
            )
            return torch.fft.irfft(out, n=x.size(-1))

    lift, spectral, skip, head = nn.Conv1d(1, 4, 1), SpectralConv(4, 4), nn.Conv1d(4, 4, 1), nn.Conv1d(4, 1, 1)
    for s, m in enumerate((lift, skip, head)):
        filled(m, s)
    model = nn.ModuleList([lift, spectral, skip, head])
    x = torch.stack([torch.sin(torch.linspace(0, 6.28 * k, 16)) for k in (1, 2, 3)]).unsqueeze(1)
    y = x.cumsum(-1) / 8

    def loss():
        h = lift(x)
        return F.mse_loss(head(F.gelu(spectral(h) + skip(h))), y)

    return fit(torch.optim.Adam(model.parameters(), 1e-2), loss)


@program
def sinusoidal_representation():
    class Siren(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 1)

        def forward(self, x):
            return self.c(torch.sin(3 * self.b(torch.sin(3 * self.a(x)))))

    model = filled(Siren())
    grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij"), -1).view(
        -1, 2
    )
    image = torch.sinc(2 * grid.norm(dim=1, keepdim=True))
    return fit(torch.optim.Adam(model.parameters(), 1e-3), lambda: F.mse_loss(model(grid), image))


@program
def hamiltonian_network():
    net = filled(nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1)))
    state = numbers(16, 2)
    rates = torch.stack([state[:, 1], -state[:, 0]], 1)

    def loss():
        x = state.clone().requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return F.mse_loss(torch.stack([slope[:, 1], -slope[:, 0]], 1), rates)

    return fit(torch.optim.Adam(net.parameters(), 1e-2), loss)


@program
def mixture_density():
    net = filled(nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 9)))
    x = numbers(24, 1)
    y = (x + 0.3 * torch.sin(6 * x)).squeeze(1)

    def loss():
        logits, mean, log_std = net(x).chunk(3, -1)
        mixture = MixtureSameFamily(Choice(logits=logits), Normal(mean, log_std.exp()))
        return -mixture.log_prob(y).mean()

    return fit(torch.optim.Adam(net.parameters(), 1e-2), loss)


@program
def deep_sets():
    phi, rho = filled(nn.Sequential(nn.Linear(2, 8), nn.ReLU()), 1), filled(nn.Linear(8, 1), 2)
    sets, mask = numbers(6, 5, 2), torch.arange(5) < torch.tensor([[5], [3], [4], [2], [5], [1]])
    y = (sets.norm(dim=-1) * mask).amax(1)

    def loss():
        h = phi(sets).masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(1)
        return F.huber_loss(rho(h).squeeze(1), y)

    return fit(torch.optim.Adam([*phi.parameters(), *rho.parameters()], 1e-2), loss)


@program
def forward_forward():
    class Layer(nn.Linear):
        def forward(self, x):
            return F.relu(F.linear(x / (x.norm(2, 1, keepdim=True) + 1e-4), self.weight, self.bias))

    layers = [filled(Layer(8, 12), 1), filled(Layer(12, 12), 2)]
    positive, negative, losses = numbers(16, 8), numbers(16, 8, seed=1), []
    for layer in layers:
        optimizer = torch.optim.Adam(layer.parameters(), 3e-2)
        for _ in range(3):
            good = layer(positive).pow(2).mean(1)
            bad = layer(negative).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([-good + 2.0, bad - 2.0]))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        positive, negative = layer(positive).detach(), layer(negative).detach()
    return losses


@program
def count_regression():
    x, counts = numbers(30, 3), classes(5, 30).float()
    w, b = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([w, b], 0.1)
    losses = fit(optimizer, lambda: -Poisson((x @ w + b).exp()).log_prob(counts).mean())
    losses += fit(optimizer, lambda: F.poisson_nll_loss(x @ w + b, counts), 3)
    return losses


@program
def variational_bayes():
    alpha, beta = torch.tensor(0.5, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    prior, heads, tails = Beta(2.0, 2.0), 9.0, 3.0

    def loss():
        q = Beta(F.softplus(alpha) + 1, F.softplus(beta) + 1)
        grid = torch.linspace(0.01, 0.99, 50)
        weight = q.log_prob(grid).exp() / 50
        evidence = heads * grid.log() + tails * (1 - grid).log()
        return torch.distributions.kl_divergence(q, prior) - (weight * evidence).sum()

    losses = fit(torch.optim.Adam([alpha, beta], 0.1), loss)
    mean = Dirichlet(torch.tensor([1.0, 2.0, 3.0])).mean
    return [*losses, *mean.tolist()]


@program
def kalman_filter():
    a, h = torch.tensor([[1.0, 0.1], [0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    log_q, log_r = torch.tensor(-2.0, requires_grad=True), torch.tensor(-1.0, requires_grad=True)
    seen = torch.arange(10.0) * 0.1 + numbers(10, scale=0.2)

    def loss():
        x, p, total = torch.zeros(2, 1), torch.eye(2), 0.0
        for y in seen:
            x, p = a @ x, a @ p @ a.T + log_q.exp() * torch.eye(2)
            s = h @ p @ h.T + log_r.exp()
            gain = p @ h.T @ torch.linalg.inv(s)
            error = y - h @ x
            total = total + 0.5 * (error**2 / s + s.log()).squeeze()
            x, p = x + gain * error, (torch.eye(2) - gain @ h) @ p
        return total / 10

    return fit(torch.optim.Adam([log_q, log_r], 0.1), loss)


@program
def optimal_transport():
    x, y = numbers(8, 2), numbers(8, 2, seed=1) + 1
    shift = torch.zeros(2, requires_grad=True)

    def sinkhorn(cost, reg=0.5, rounds=20):
        f, g = torch.zeros(8), torch.zeros(8)
        for _ in range(rounds):
            f = -reg * torch.logsumexp((g[None] - cost) / reg, 1)
            g = -reg * torch.logsumexp((f[:, None] - cost) / reg, 0)
        plan = torch.exp((f[:, None] + g[None] - cost) / reg)
        return (plan * cost).sum()

    return fit(torch.optim.SGD([shift], 0.05), lambda: sinkhorn(torch.cdist(x + shift, y, p=2).square()))


@program
def hopfield_memory():
    patterns = torch.sign(numbers(3, 16))
    w = (patterns.T @ patterns / 16).fill_diagonal_(0)
    state = patterns[0].clone()
    state[:4] *= -1
    energies = []
    for _ in range(3):
        energies.append((-0.5 * state @ w @ state).item())
        state = torch.where(w @ state >= 0, 1.0, -1.0)
    modern = torch.softmax(8 * state @ patterns.T, -1) @ patterns
    return [*energies, (state @ patterns[0]).item(), modern.pow(2).mean().item()]


@program
def survival_analysis():
    risk = filled(nn.Linear(4, 1))
    x, time, event = numbers(20, 4), uniform(20), classes(2, 20, seed=2).float()

    def loss():
        order = torch.argsort(time, descending=True)
        scores = risk(x).squeeze(1)[order]
        return -((scores - torch.logcumsumexp(scores, 0)) * event[order]).sum() / event.sum()

    return fit(torch.optim.SGD(risk.parameters(), 0.1), loss)
