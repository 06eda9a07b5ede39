"""Small generative programs, graphs and reinforcement learning."""

import math
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from common import classes, filled, fit, numbers, program, uniform
from torch.distributions import Categorical, MultivariateNormal, Normal


def two_moons(n, seed=0):
    """Points on two half circles."""
    draw = np.random.RandomState(seed)
    t, side = draw.rand(n) * math.pi, draw.randint(0, 2, n)
    x = np.where(side, 1 - np.cos(t), np.cos(t))
    y = np.where(side, 0.5 - np.sin(t), np.sin(t))
    return torch.tensor(np.stack([x, y], 1) + 0.05 * draw.randn(n, 2), dtype=torch.float32)


# --- generative models ----------------------------------------------------------------------------------------------------


@program
def real_nvp():
    class Coupling(nn.Module):
        def __init__(self, flip):
            super().__init__()
            self.flip, self.net = flip, nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2))

        def forward(self, x):
            a, b = x.chunk(2, 1)
            a, b = (b, a) if self.flip else (a, b)
            s, t = self.net(a).chunk(2, 1)
            b = b * torch.exp(torch.tanh(s)) + t
            return torch.cat((b, a) if self.flip else (a, b), 1), torch.tanh(s).sum(1)

    flow = filled(nn.ModuleList([Coupling(i % 2 == 1) for i in range(4)]))
    prior, x = MultivariateNormal(torch.zeros(2), torch.eye(2)), two_moons(32)

    def loss():
        z, total = x, 0
        for layer in flow:
            z, det = layer(z)
            total = total + det
        return -(prior.log_prob(z) + total).mean()

    return fit(torch.optim.Adam(flow.parameters(), lr=5e-3), loss)


@program
def planar_flow():
    layers = [
        [nn.Parameter(numbers(2, seed=i, scale=0.3)), nn.Parameter(numbers(2, seed=9 + i, scale=0.3))] for i in range(3)
    ]
    biases = [nn.Parameter(torch.zeros(1)) for _ in layers]
    noise = numbers(64, 2)

    def loss():
        z, log_det = noise, torch.zeros(64)
        for (u, w), b in zip(layers, biases, strict=False):
            wu = w @ u
            u_hat = u + (F.softplus(wu) - 1 - wu) * w / w.pow(2).sum()
            h = torch.tanh(z @ w + b)
            psi = (1 - h**2).unsqueeze(1) * w
            log_det = log_det + torch.log(torch.abs(1 + psi @ u_hat) + 1e-6)
            z = z + torch.outer(h, u_hat)
        target = -0.5 * ((z.norm(dim=1) - 2) / 0.4) ** 2
        return (-log_det - target).mean()

    return fit(torch.optim.Adam([p for pair in layers for p in pair] + biases, lr=1e-2), loss)


@program
def diffusion_on_points():
    steps = 20
    betas = torch.linspace(1e-4, 0.1, steps)
    alphas = torch.cumprod(1 - betas, dim=0)
    model = filled(nn.Sequential(nn.Linear(2 + 8, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 2)))

    def embedding(t):
        freqs = torch.exp(-math.log(100.0) * torch.arange(4) / 4)
        angles = t.float().unsqueeze(1) * freqs
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    x0, optimizer, losses = two_moons(32), torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for step in range(5):
        t, noise = classes(steps, 32, seed=step), numbers(32, 2, seed=step)
        keep = alphas[t].unsqueeze(1)
        noisy = keep.sqrt() * x0 + (1 - keep).sqrt() * noise
        losses += fit(optimizer, lambda: F.mse_loss(model(torch.cat([noisy, embedding(t)], 1)), noise), 1)
    with torch.no_grad():  # one ancestral sample
        x = numbers(4, 2, seed=77)
        for i in reversed(range(steps)):
            eps = model(torch.cat([x, embedding(torch.full((4,), i))], 1))
            x = (x - betas[i] / (1 - alphas[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
    return [*losses, x.abs().mean().item()]


@program
def flow_matching():
    model = filled(nn.Sequential(nn.Linear(3, 32), nn.ELU(), nn.Linear(32, 2)))
    x1, optimizer, losses = two_moons(32), torch.optim.Adam(model.parameters(), 1e-2), []
    for step in range(5):
        x0, t = numbers(32, 2, seed=step), uniform(32, 1, seed=step)
        xt = torch.lerp(x0, x1, t)
        losses += fit(optimizer, lambda: (model(torch.cat([xt, t], 1)) - (x1 - x0)).pow(2).mean(), 1)
    return losses


@program
def score_matching():
    model = filled(nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 2)))
    x = two_moons(24).requires_grad_()

    def loss():
        score = model(x)
        trace = 0.0
        for i in range(2):
            trace = trace + torch.autograd.grad(score[:, i].sum(), x, create_graph=True)[0][:, i]
        return (trace + 0.5 * score.square().sum(1)).mean()

    return fit(torch.optim.Adam(model.parameters(), 1e-2), loss)


@program
def wgan_gp():
    critic = filled(nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), 1)
    generator = filled(nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)), 2)
    opt_c = torch.optim.Adam(critic.parameters(), 1e-3, (0.0, 0.9))
    opt_g = torch.optim.Adam(generator.parameters(), 1e-3, (0.0, 0.9))
    real, losses = two_moons(16), []
    for step in range(4):
        fake = generator(numbers(16, 2, seed=step)).detach()
        mix = (uniform(16, 1, seed=step) * (real - fake) + fake).requires_grad_(True)
        (slope,) = torch.autograd.grad(critic(mix), mix, torch.ones(16, 1), create_graph=True, retain_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss_c = critic(fake).mean() - critic(real).mean() + 10 * penalty
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        loss_g = -critic(generator(numbers(16, 2, seed=50 + step))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        losses += [loss_c.item(), loss_g.item()]
    return losses


@program
def energy_based():
    energy = filled(nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1)))
    data, optimizer, losses = two_moons(16), torch.optim.Adam(energy.parameters(), 1e-2), []
    for step in range(4):
        x = numbers(16, 2, seed=step)
        for i in range(5):  # Langevin steps
            x = x.detach().requires_grad_()
            energy(x).sum().backward()
            with torch.no_grad():
                x = x - 0.1 * x.grad + 0.01 * numbers(16, 2, seed=100 * step + i)
        losses += fit(optimizer, lambda: energy(data).mean() - energy(x.detach()).mean(), 1)
    return losses


@program
def vq_vae():
    encoder, decoder = filled(nn.Linear(8, 4), 1), filled(nn.Linear(4, 8), 2)
    codes = nn.Parameter(numbers(6, 4, seed=3))
    x = numbers(16, 8)

    def loss():
        z = encoder(x)
        index = torch.cdist(z, codes).argmin(dim=1)
        q = F.embedding(index, codes)
        straight = z + (q - z).detach()
        commit = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return F.mse_loss(decoder(straight), x) + commit

    return fit(torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), codes], 1e-2), loss)


@program
def bayes_by_backprop():
    mu, rho = nn.Parameter(numbers(3, scale=0.1)), nn.Parameter(torch.full((3,), -2.0))
    x = numbers(20, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5])
    optimizer, losses = torch.optim.Adam([mu, rho], lr=0.1), []
    for step in range(5):
        posterior = Normal(mu, F.softplus(rho))
        w = mu + F.softplus(rho) * numbers(3, seed=step)
        kl = torch.distributions.kl_divergence(posterior, Normal(torch.zeros(3), torch.ones(3))).sum()
        losses += fit(optimizer, lambda: kl / 20 - Normal(x @ w, 0.5).log_prob(y).mean(), 1)
    return losses


# --- graphs ---------------------------------------------------------------------------------------------------------------

EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 1, 4], [1, 2, 3, 4, 5, 0, 3, 5, 4, 0]])


def adjacency():
    """A normalized adjacency matrix."""
    a = torch.zeros(6, 6)
    a[EDGES[0], EDGES[1]] = 1
    a = torch.maximum(a, a.t()) + torch.eye(6)
    d = a.sum(1).pow(-0.5)
    return d[:, None] * a * d[None, :]


@program
def graph_convolutions():
    a = adjacency().to_sparse()
    weight1, weight2 = nn.Parameter(numbers(5, 8, scale=0.4)), nn.Parameter(numbers(8, 3, seed=1, scale=0.4))
    x, y, train = numbers(6, 5), classes(3, 6), torch.tensor([True, True, False, True, False, True])

    def loss():
        hidden = F.relu(torch.sparse.mm(a, x @ weight1))
        out = F.log_softmax(torch.sparse.mm(a, hidden @ weight2), dim=1)
        return F.nll_loss(out[train], y[train])

    return fit(torch.optim.Adam([weight1, weight2], lr=0.01, weight_decay=5e-4), loss)


@program
def graph_attention():
    class GAT(nn.Module):
        def __init__(self, inside, out, heads):
            super().__init__()
            self.W, self.heads, self.out = nn.Parameter(torch.empty(inside, heads * out)), heads, out
            self.a = nn.Parameter(torch.empty(heads, 2 * out, 1))
            nn.init.xavier_normal_(self.W)
            nn.init.xavier_normal_(self.a)

        def forward(self, h, adj):
            z = (h @ self.W).view(h.size(0), self.heads, self.out).permute(1, 0, 2)
            left, right = z @ self.a[:, : self.out], z @ self.a[:, self.out :]
            e = F.leaky_relu(left + right.mT, 0.2)
            e = torch.where(adj > 0, e, torch.full_like(e, -9e16))
            return (F.softmax(e, dim=-1) @ z).permute(1, 0, 2).flatten(1)

    model = filled(nn.ModuleList([GAT(5, 4, 2), GAT(8, 3, 1)]))
    x, y, adj = numbers(6, 5), classes(3, 6), adjacency()
    return fit(
        torch.optim.Adam(model.parameters(), 0.02), lambda: F.cross_entropy(model[1](F.elu(model[0](x, adj)), adj), y)
    )


@program
def graph_sage():
    lin = filled(nn.ModuleList([nn.Linear(10, 8), nn.Linear(16, 2)]))
    x, y = numbers(6, 5), classes(2, 6)
    source, target = EDGES

    def layer(h, f):
        count = torch.zeros(6).index_add_(0, target, torch.ones(10)).clamp_(min=1)
        mean = torch.zeros(6, h.shape[1]).index_add(0, target, h[source]) / count[:, None]
        return f(torch.cat([h, mean], 1))

    def loss():
        return F.cross_entropy(layer(F.relu(layer(x, lin[0])), lin[1]), y)

    return fit(torch.optim.Adam(lin.parameters(), 1e-2), loss)


@program
def message_passing():
    message, update = filled(nn.Linear(4 + 4 + 2, 8), 1), filled(nn.GRUCell(8, 4), 2)
    readout = filled(nn.Linear(4, 1), 3)
    x, edge, y = numbers(6, 4), numbers(10, 2), torch.tensor(1.5)
    source, target = EDGES

    def loss():
        h = x
        for _ in range(3):
            m = torch.relu(message(torch.cat([h[source], h[target], edge], 1)))
            total = torch.zeros(6, 8).scatter_reduce(0, target[:, None].expand(-1, 8), m, reduce="sum")
            h = update(total, h)
        return (readout(h.amax(0)).squeeze() - y) ** 2

    return fit(torch.optim.Adam([*message.parameters(), *update.parameters(), *readout.parameters()], 5e-3), loss)


# --- reinforcement learning -----------------------------------------------------------------------------------------------


class Pole:
    """A pole on a cart, in four numbers."""

    def __init__(self):
        self.state = np.array([0.0, 0.1, 0.05, -0.1])

    def step(self, action):
        x, v, angle, spin = self.state
        force = 1.0 if action else -1.0
        accel = force - 0.5 * np.sin(angle)
        self.state = np.array(
            [x + 0.1 * v, v + 0.1 * accel, angle + 0.1 * spin, spin + 0.1 * (9.8 * np.sin(angle) - accel)]
        )
        return self.state, 1.0, bool(abs(self.state[2]) > 0.8)


@program
def reinforce():
    policy = filled(nn.Sequential(nn.Linear(4, 16), nn.Dropout(p=0.0), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(dim=1)))
    optimizer, losses = torch.optim.Adam(policy.parameters(), lr=1e-2), []
    for episode in range(3):
        env, log_probs, rewards = Pole(), [], []
        state = env.state
        for t in range(12):
            m = Categorical(policy(torch.from_numpy(state).float().unsqueeze(0)))
            action = torch.tensor([(episode + t) % 2])
            log_probs.append(m.log_prob(action))
            state, reward, done = env.step(action.item())
            rewards.append(reward)
            if done:
                break
        R, returns = 0, deque()
        for r in rewards[::-1]:
            R = r + 0.99 * R
            returns.appendleft(R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        optimizer.zero_grad()
        loss = torch.cat([-lp * R for lp, R in zip(log_probs, returns, strict=False)]).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@program
def actor_critic():
    SavedAction = namedtuple("SavedAction", ["log_prob", "value"])

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.affine1, self.action_head, self.value_head = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)

        def forward(self, x):
            x = F.relu(self.affine1(x))
            return F.softmax(self.action_head(x), dim=-1), self.value_head(x)

    model, losses = filled(Policy()), []
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for episode in range(3):
        env, saved, rewards = Pole(), [], []
        for t in range(10):
            probs, value = model(torch.from_numpy(env.state).float())
            action = torch.tensor((t // 2 + episode) % 2)
            saved.append(SavedAction(Categorical(probs).log_prob(action), value))
            rewards.append(env.step(action.item())[1])
        R, returns = 0, []
        for r in reversed(rewards):
            R = r + 0.9 * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        policy_losses = [-a.log_prob * (R - a.value.item()) for a, R in zip(saved, returns, strict=False)]
        value_losses = [F.smooth_l1_loss(a.value, torch.tensor([R])) for a, R in zip(saved, returns, strict=False)]
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@program
def deep_q_network():
    Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
    net, target = (
        filled(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))),
        nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)),
    )
    target.load_state_dict(net.state_dict())
    memory = deque([], maxlen=64)
    for i in range(32):
        following = None if i % 7 == 0 else numbers(1, 4, seed=i + 1)
        memory.append(
            Transition(numbers(1, 4, seed=i), torch.tensor([[i % 2]]), following, torch.tensor([float(i % 3)]))
        )
    optimizer, losses = torch.optim.AdamW(net.parameters(), lr=1e-2, amsgrad=True), []
    for step in range(4):
        batch = Transition(*zip(*[memory[(step + 5 * k) % 32] for k in range(8)], strict=False))
        keep = torch.tensor([s is not None for s in batch.next_state], dtype=torch.bool)
        following = torch.cat([s for s in batch.next_state if s is not None])
        values = net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
        next_values = torch.zeros(8)
        with torch.no_grad():
            next_values[keep] = target(following).max(1).values
        expected = next_values * 0.99 + torch.cat(batch.reward)
        loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(net.parameters(), 100)
        optimizer.step()
        new, old = net.state_dict(), target.state_dict()
        for key in new:
            old[key] = new[key] * 0.05 + old[key] * 0.95
        target.load_state_dict(old)
        losses.append(loss.item())
    return losses


@program
def proximal_policy_optimization():
    actor = filled(nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)), 1)
    critic = filled(nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)), 2)
    log_std = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=3e-3, eps=1e-5)
    obs, actions, rewards = numbers(16, 3), numbers(16, 1, seed=1), numbers(16, seed=2)
    with torch.no_grad():
        old = Normal(actor(obs), log_std.exp()).log_prob(actions).sum(-1)
        values = critic(obs).squeeze(-1)
        advantages, last = torch.zeros(16), 0.0
        for t in reversed(range(16)):
            following = values[t + 1] if t < 15 else 0.0
            delta = rewards[t] + 0.99 * following - values[t]
            advantages[t] = last = delta + 0.99 * 0.95 * last
        returns = advantages + values

    def loss():
        policy = Normal(actor(obs), log_std.exp())
        ratio = (policy.log_prob(actions).sum(-1) - old).exp()
        adv = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
        value = 0.5 * ((critic(obs).view(-1) - returns) ** 2).mean()
        return clipped + 0.5 * value - 0.01 * policy.entropy().mean()

    return fit(optimizer, loss)


@program
def soft_actor_critic():
    q1, q2 = (filled(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)), s) for s in (1, 2))
    policy = filled(nn.Linear(3, 4), 3)
    log_alpha = torch.zeros(1, requires_grad=True)
    obs, losses = numbers(12, 3), []
    opt = torch.optim.Adam([*policy.parameters(), log_alpha], 1e-2)
    for step in range(4):
        mean, log_std = policy(obs).chunk(2, dim=-1)
        base = Normal(mean, log_std.clamp(-5, 2).exp())
        x = mean + base.stddev * numbers(12, 2, seed=step)
        action = torch.tanh(x)
        log_p = (base.log_prob(x) - torch.log(1 - action.pow(2) + 1e-6)).sum(1, keepdim=True)
        q = torch.min(q1(torch.cat([obs, action], 1)), q2(torch.cat([obs, action], 1)))
        actor_loss = (log_alpha.exp().detach() * log_p - q).mean()
        alpha_loss = -(log_alpha.exp() * (log_p + 2.0).detach()).mean()
        opt.zero_grad()
        (actor_loss + alpha_loss).backward()
        opt.step()
        losses += [actor_loss.item(), alpha_loss.item()]
    return losses
