"""Small programs about training itself."""

import copy
import io
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from common import classes, filled, fit, numbers, program
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap
from torch.nn.utils import parametrizations, parametrize
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset


def mlp(inside=8, out=3, seed=0):
    """A small network."""
    return filled(nn.Sequential(nn.Linear(inside, 16), nn.ReLU(), nn.Linear(16, out)), seed)


X, Y = numbers(24, 8), classes(3, 24)


@program
def gradient_accumulation():
    model, criterion, losses = mlp(), nn.CrossEntropyLoss(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=False)
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / 3
        loss.backward()
        if (i + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@program
def mixed_precision():
    model, losses = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for _ in range(4):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            out = model(X)
            loss = F.cross_entropy(out.float(), Y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        losses.append(round(loss.item(), 2))
    assert out.dtype == torch.bfloat16
    return losses


@program
def activation_checkpointing():
    blocks = filled(nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)]))
    head = filled(nn.Linear(8, 3))

    def loss():
        x = X
        for block in blocks[:2]:
            x = checkpoint(block, x, use_reentrant=False)
        x = checkpoint_sequential(nn.Sequential(*blocks[2:]), 2, x, use_reentrant=False)
        return F.cross_entropy(head(x), Y)

    return fit(torch.optim.Adam([*blocks.parameters(), *head.parameters()], 1e-2), loss)


@program
def exponential_moving_average():
    model = mlp()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
    for _ in range(4):
        losses += fit(optimizer, lambda: F.cross_entropy(model(X), Y), 1)
        ema.update_parameters(model)
    with torch.no_grad():
        losses.append(F.cross_entropy(ema(X), Y).item())
    return losses


@program
def stochastic_weight_averaging():
    model = filled(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)))
    swa, optimizer = AveragedModel(model), torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    losses = []
    for _ in range(4):
        losses += fit(optimizer, lambda: F.cross_entropy(model(X), Y), 1)
        swa.update_parameters(model)
        scheduler.step()
    torch.optim.swa_utils.update_bn([X], swa)
    swa.eval()
    return [*losses, F.cross_entropy(swa(X), Y).item()]


@program
def low_rank_adaptation():
    class LoRA(nn.Module):
        def __init__(self, linear, rank=2, alpha=4):
            super().__init__()
            self.linear, self.scale = linear, alpha / rank
            self.A = nn.Parameter(numbers(rank, linear.in_features, seed=4, scale=0.1))
            self.B = nn.Parameter(torch.zeros(linear.out_features, rank))
            linear.weight.requires_grad_(False)

        def forward(self, x):
            return self.linear(x) + (x @ self.A.T @ self.B.T) * self.scale

        def merged(self):
            return self.linear.weight + self.scale * self.B @ self.A

    model = mlp()
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRA(child))
    trainable = [p for p in model.parameters() if p.requires_grad]
    losses = fit(torch.optim.AdamW(trainable, lr=1e-2), lambda: F.cross_entropy(model(X), Y))
    merged = F.linear(X, model[0].merged(), model[0].linear.bias)
    assert torch.allclose(merged, model[0](X), atol=1e-5)
    return [*losses, merged.pow(2).mean().item(), float(sum(p.numel() for p in trainable))]


@program
def knowledge_distillation():
    teacher, student = mlp(seed=1).eval(), filled(nn.Linear(8, 3), 2)
    T = 2.0

    def loss():
        with torch.no_grad():
            soft = F.softmax(teacher(X) / T, dim=-1)
        logits = student(X)
        distill = F.kl_div(F.log_softmax(logits / T, dim=-1), soft, reduction="batchmean") * T**2
        return 0.5 * distill + 0.5 * F.cross_entropy(logits, Y)

    return fit(torch.optim.Adam(student.parameters(), 1e-2), loss)


@program
def schedulers():
    model, losses = mlp(), []
    for make in (
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=6),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=2),
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda e: 0.9**e),
        lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
        lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=2), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)],
            milestones=[2],
        ),
    ):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler = make(optimizer)
        for _ in range(4):
            losses += fit(optimizer, lambda: F.cross_entropy(model(X), Y), 1)
            scheduler.step()
            losses.append(optimizer.param_groups[0]["lr"])
    return losses


@program
def plateau_and_early_stopping():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), 0.2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    best, kept, losses, wait = float("inf"), None, [], 0
    for _ in range(10):
        losses += fit(optimizer, lambda: F.cross_entropy(model(X[:12]), Y[:12]), 1)
        with torch.no_grad():
            held_out = F.cross_entropy(model(X[12:]), Y[12:]).item()
        scheduler.step(held_out)
        if held_out < best:
            best, kept, wait = held_out, copy.deepcopy(model.state_dict()), 0
        else:
            wait += 1
            if wait > 3:
                break
    model.load_state_dict(kept)
    return [*losses, best, optimizer.param_groups[0]["lr"]]


@program
def mixup():
    model, losses = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        lam, index = 0.3 + 0.1 * step, torch.arange(24).roll(step + 1)
        mixed = lam * X + (1 - lam) * X[index]
        soft = lam * F.one_hot(Y, 3).float() + (1 - lam) * F.one_hot(Y[index], 3).float()
        losses += fit(optimizer, lambda x=mixed, t=soft: F.cross_entropy(model(x), t), 1)
    return losses


@program
def lbfgs():
    model = filled(nn.Linear(8, 3))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=5, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(3)] + [closure().item()]


@program
def all_optimizers():
    losses = []
    for cls in (torch.optim.ASGD, torch.optim.Adadelta, torch.optim.Adagrad, torch.optim.Adamax, torch.optim.NAdam,
                torch.optim.RAdam, torch.optim.RMSprop, torch.optim.Rprop):  # fmt: skip
        model = mlp()
        losses += fit(cls(model.parameters(), lr=0.01), lambda m=model: F.cross_entropy(m(X), Y), 3)
    return losses


@program
def hooks():
    model, seen = mlp(), {}

    def keep(name):
        def hook(module, inputs, output):
            seen[name] = output.detach().abs().mean().item()

        return hook

    handles = [m.register_forward_hook(keep(n)) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    model[0].register_full_backward_hook(lambda m, gi, go: seen.update(grad=go[0].norm().item()))
    out = model(X.clone().requires_grad_())
    out.register_hook(lambda g: g * 2)
    F.cross_entropy(out, Y).backward()
    for h in handles:
        h.remove()
    return [seen["0"], seen["2"], seen["grad"], model[0].weight.grad.norm().item()]


@program
def custom_autograd_function():
    class LegendrePolynomial3(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 0.5 * (5 * x**3 - 3 * x)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * x**2 - 1)

    x = torch.linspace(-3.14, 3.14, 200)
    y = torch.sin(x)
    a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
    losses = []
    for _ in range(5):
        loss = (a + b * LegendrePolynomial3.apply(c + d * x) - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                p -= 5e-6 * p.grad
                p.grad = None
        losses.append(loss.item())
    return losses


@program
def parametrized_weights():
    class Symmetric(nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).transpose(-1, -2)

    layer = filled(nn.Linear(8, 8))
    parametrize.register_parametrization(layer, "weight", Symmetric())
    head = parametrizations.weight_norm(filled(nn.Linear(8, 3), 1))
    losses = fit(
        torch.optim.SGD([*layer.parameters(), *head.parameters()], 0.1), lambda: F.cross_entropy(head(layer(X)), Y)
    )
    return [*losses, (layer.weight - layer.weight.T).abs().max().item()]


@program
def pruning():
    model = mlp()
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    prune.ln_structured(model[2], "weight", amount=0.34, n=2, dim=0)
    losses = fit(torch.optim.SGD(model.parameters(), 0.1), lambda: F.cross_entropy(model(X), Y), 3)
    for layer in (model[0], model[2]):
        prune.remove(layer, "weight")
    sparsity = float((model[0].weight == 0).float().mean())
    return [*losses, sparsity]


@program
def per_sample_gradients():
    model = mlp()
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p, x, y):
        return F.cross_entropy(functional_call(model, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    losses = []
    for step in range(3):  # DP-SGD: clip each gradient, add noise
        grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, X, Y)
        norms = sum(g.flatten(1).pow(2).sum(1) for g in grads.values()).sqrt()
        scale = (1.0 / norms).clamp(max=1.0)
        for i, (k, g) in enumerate(grads.items()):
            noise = numbers(*params[k].shape, seed=step + i, scale=0.01)
            params[k] = params[k] - 0.5 * (torch.einsum("n,n...->...", scale, g) / 24 + noise)
        losses += [F.cross_entropy(functional_call(model, params, X), Y).item(), norms.mean().item()]
    return losses


@program
def model_ensemble():
    models = [mlp(seed=s) for s in range(4)]
    params, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def run(p, b, x):
        return functional_call(base, (p, b), (x,))

    together = vmap(run, in_dims=(0, 0, None))(params, buffers, X)
    own = vmap(run)(params, buffers, X.view(4, 6, 8))
    one_by_one = torch.stack([m(X) for m in models])
    assert torch.allclose(together, one_by_one, atol=1e-5)
    return [together.mean().item(), together.std(0).mean().item(), own.pow(2).mean().item()]


@program
def meta_learning():
    model = filled(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)))
    meta = torch.optim.Adam(model.parameters(), 1e-2)

    def loss_of(params, x, y):
        return F.mse_loss(functional_call(model, params, x), y)

    losses = []
    for step in range(3):
        meta.zero_grad()
        params, total = dict(model.named_parameters()), 0.0
        for task in range(2):
            x = numbers(10, 1, seed=10 * step + task)
            y = torch.sin(x + task)
            slopes = torch.autograd.grad(loss_of(params, x[:5], y[:5]), list(params.values()), create_graph=True)
            fast = {k: p - 0.1 * g for (k, p), g in zip(params.items(), slopes, strict=False)}
            total = total + loss_of(fast, x[5:], y[5:])
        total.backward()
        meta.step()
        losses.append(total.item())
    return losses


@program
def jacobians_and_hessians():
    def f(x):
        return torch.stack([(x**2).sum(), x.prod(), torch.sin(x).sum()])

    x = numbers(4)
    h = hessian(lambda v: (v**3).sum() + v.prod())(x)
    value, tangent = jvp(f, (x,), (torch.ones(4),))
    batch = vmap(jacrev(f))(numbers(3, 4, seed=1))
    return [
        *jacrev(f)(x).flatten().tolist(),
        *h.diagonal().tolist(),
        *value.tolist(),
        *tangent.tolist(),
        batch.sum().item(),
    ]


@program
def data_loading():
    class Lines(Dataset):
        def __init__(self):
            self.items = [(X[i, : 3 + i % 4], int(Y[i])) for i in range(24)]

        def __len__(self):
            return len(self.items)

        def __getitem__(self, i):
            return self.items[i]

    def collate(batch):
        rows, labels = zip(*batch, strict=False)
        lengths = torch.tensor([len(r) for r in rows])
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths, torch.tensor(labels)

    head, losses = filled(nn.Linear(1, 3)), []
    optimizer = torch.optim.SGD(head.parameters(), 0.1)
    loader = DataLoader(Subset(Lines(), range(4, 24)), batch_size=5, collate_fn=collate, drop_last=True)
    for x, lengths, y in loader:
        mean = x.sum(1, keepdim=True) / lengths[:, None]
        losses += fit(optimizer, lambda m=mean, t=y: F.cross_entropy(head(m), t), 1)
    return losses


@program
def checkpoint_files():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = fit(optimizer, lambda: F.cross_entropy(model(X), Y), 2)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = mlp(seed=5)
    again.load_state_dict(saved["model"])
    resumed = torch.optim.Adam(again.parameters(), 1.0)
    resumed.load_state_dict(saved["optimizer"])
    return [*losses, *fit(resumed, lambda: F.cross_entropy(again(X), Y), 3), float(saved["epoch"])]


@program
def quantization_aware():
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            return torch.clamp(torch.round(x / scale), -8, 7) * scale

        @staticmethod
        def backward(ctx, g):
            return g, None

    model = mlp()

    def loss():
        h = X
        for layer in model:
            if isinstance(layer, nn.Linear):
                scale = layer.weight.detach().abs().max() / 7
                h = F.linear(h, Round.apply(layer.weight, scale), layer.bias)
            else:
                h = layer(h)
        return F.cross_entropy(h, Y)

    return fit(torch.optim.SGD(model.parameters(), 0.1), loss)


@program
def domain_adversarial():
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, alpha):
            ctx.alpha = alpha
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -ctx.alpha * g, None

    features, label, domain = filled(nn.Linear(8, 8)), filled(nn.Linear(8, 3), 1), filled(nn.Linear(8, 2), 2)
    sides = (torch.arange(24) % 2).long()

    def loss():
        h = torch.relu(features(X))
        return F.cross_entropy(label(h), Y) + F.cross_entropy(domain(Reverse.apply(h, 0.5)), sides)

    return fit(torch.optim.Adam([*features.parameters(), *label.parameters(), *domain.parameters()], 1e-2), loss)


@program
def sharpness_aware():
    model, losses = mlp(), []
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        norm = torch.norm(torch.stack([p.grad.norm(p=2) for p in model.parameters()]), p=2)
        with torch.no_grad():
            steps = [p.grad * (0.05 / (norm + 1e-12)) for p in model.parameters()]
            torch._foreach_add_(list(model.parameters()), steps)
        base.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        with torch.no_grad():
            for p, e in zip(model.parameters(), steps, strict=False):
                p.sub_(e)
        base.step()
        base.zero_grad()
        losses.append(loss.item())
    return losses


@program
def frozen_layers_and_groups():
    model = mlp()
    for p in model[0].parameters():
        p.requires_grad = False
    before = model[0].weight.clone()
    head = [p for n, p in model.named_parameters() if n.startswith("2")]
    optimizer = torch.optim.SGD([{"params": head, "lr": 0.1}], lr=1e-3, momentum=0.9, dampening=0.1)
    losses = fit(optimizer, lambda: F.cross_entropy(model(X), Y), 2)
    for p in model[0].parameters():
        p.requires_grad = True
    optimizer.add_param_group({"params": model[0].parameters()})
    losses += fit(optimizer, lambda: F.cross_entropy(model(X), Y), 3)
    return [*losses, (model[0].weight - before).norm().item()]


@program
def orthogonal_weights():
    layer = parametrizations.orthogonal(filled(nn.Linear(8, 8)))
    head = filled(nn.Linear(8, 3), 1)
    largest = torch.linalg.svdvals(head.weight)[0].detach()
    params = [*layer.parameters(), *head.parameters()]
    losses = fit(torch.optim.SGD(params, 0.1), lambda: F.cross_entropy(F.linear(layer(X), head.weight / largest), Y))
    q = layer.weight
    assert torch.allclose(q @ q.T, torch.eye(8), atol=1e-5)
    return [*losses, largest.item(), q.trace().item()]
