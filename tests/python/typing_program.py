"""Typical user code. test_typing.py runs it, and runs mypy and pyright over it: no line may need a `type: ignore`."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import strata
import strata.nn.functional as F
from strata import Tensor, nn, optim
from strata.autograd import Function
from strata.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, OneCycleLR, ReduceLROnPlateau, SequentialLR, StepLR
from strata.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split

if TYPE_CHECKING:  # not in Python 3.10
    from typing import assert_type
else:

    def assert_type(value, _):
        return value


def tensors() -> None:
    x = strata.randn(3, 4)
    assert_type(x, Tensor)
    assert_type(x.shape, strata.Size)
    rows: int = x.shape[0]
    assert_type(x.size(0), int)
    assert_type(x.dtype, strata.dtype)
    assert_type(x.device, strata.device)
    same: bool = x.dtype == strata.float32 and x.device == strata.device("cpu")
    y = strata.zeros((3, 4), dtype=strata.float64, device="cpu", requires_grad=True)
    z = strata.tensor([[1, 2], [3, 4]], dtype=strata.int64, device=strata.device("cpu"))
    assert_type(z.float(), Tensor)
    assert_type(x.to("cpu"), Tensor)
    assert_type(x.to(strata.float64), Tensor)
    assert_type(x.to(device="cpu", dtype=strata.float16), Tensor)
    assert_type(x.to(y), Tensor)
    assert_type(strata.arange(10), Tensor)
    assert_type(strata.arange(0, 1, 0.1), Tensor)
    assert_type(strata.full((2,), 1.5), Tensor)
    assert_type(x.view(2, 6), Tensor)
    assert_type(x.view(-1), Tensor)
    assert_type(x.reshape((4, 3)).permute(1, 0).contiguous(), Tensor)
    assert_type(x.numel(), int)
    assert_type(len(x), int)
    number = float(x.sum()) + x.mean().item() + int(z[0, 0])
    values = x.max(dim=1)
    assert_type(values.values, Tensor)
    best, index = x.max(1)
    assert_type(best, Tensor)
    assert_type(index, Tensor)
    top, _ = strata.topk(x, 2)
    assert_type(top, Tensor)
    for row in x:
        assert_type(row, Tensor)
    strata.cat([x, x], dim=0)
    strata.stack((x, x))
    strata.where(x > 0, x, 0)
    first, second = x.split(2, dim=1)
    parts = x.chunk(2)
    assert_type(parts, tuple[Tensor, ...])
    array = x.numpy()
    strata.from_numpy(array)
    strata.einsum("ij,kj->ik", x, x)
    compiled = strata.compile(strata.relu)
    compiled(x)
    strata.manual_seed(0)
    generator = strata.Generator().manual_seed(1)
    strata.rand(2, generator=generator)
    strata.nn.utils.clip_grad_norm_([y], 1.0)
    print(rows, same, number, first, second, x.tolist())


def indexing() -> None:
    x = strata.randn(3, 4)
    assert_type(x[0], Tensor)
    assert_type(x[0, 1], Tensor)
    assert_type(x[:, 1:3], Tensor)
    assert_type(x[..., None], Tensor)
    assert_type(x[x > 0], Tensor)
    assert_type(x[strata.tensor([0, 2])], Tensor)
    assert_type(x[[0, 2], :], Tensor)
    x[0] = 1
    x[:, 0] = x[:, 1]
    x[x < 0] = 0.0
    x[0, 1] += 2


def operators() -> None:
    x = strata.ones(2, 2)
    assert_type(x + 1, Tensor)
    assert_type(2.0 * x - x / 3, Tensor)
    assert_type(x @ x, Tensor)
    assert_type(x**2, Tensor)
    assert_type(-x, Tensor)
    assert_type(x == 1, Tensor)
    assert_type((x > 0) & (x < 2) | ~(x != 0), Tensor)
    assert_type(1 / x, Tensor)
    assert_type(x // 2 % 2, Tensor)
    x += 1
    x *= 0.5
    x.add_(1, alpha=2).mul_(0.5).zero_()
    if (x == 0).all():
        print(x.sum().item())


def autograd() -> None:
    x = strata.ones(3, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    assert_type(x.grad * 0.1, Tensor)
    x.grad = None
    (g,) = strata.autograd.grad((x * x).sum(), x, create_graph=True)
    print(g.norm())
    with strata.no_grad():
        x -= 0.1
    with strata.set_grad_enabled(False), strata.inference_mode():
        y = x + 1
    with strata.enable_grad():
        y = x.detach().requires_grad_()
    handle = x.register_hook(lambda grad: grad * 2)
    handle.remove()
    print(y.requires_grad)


@strata.no_grad()
def evaluate(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


@strata.no_grad
def evaluate_too(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


@strata.inference_mode()
def predict(model: nn.Module, x: Tensor) -> int:
    return int(model(x).argmax())


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return 3 * ctx.scale * x * x * grad, None


class Net(nn.Module):
    table: Tensor

    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.width = width
        self.first = nn.Linear(4, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.heads = nn.ModuleDict({"a": nn.Linear(width, 3)})
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.scale = nn.Parameter(strata.ones(width))
        self.register_buffer("table", strata.zeros(width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = F.relu(self.first(x))
        for layer in self.layers:
            x = x + self.dropout(F.gelu(layer(x), approximate="tanh"))
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        x = self.norm(x) * self.scale + self.table
        return self.heads["a"](x)


class Tagger(nn.Module):
    """A forward of another form: several inputs and outputs, untyped."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 5, batch_first=True)
        self.attention = nn.MultiheadAttention(5, 1, batch_first=True)

    def forward(self, x, lengths=None, *, scale=1.0):
        h, (last, _) = self.rnn(x)
        h, weights = self.attention(h, h, h)
        return h * scale, last, weights


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = strata.full((4,), float(index))
        return x, x[0].long() % 3


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[Tensor]:
        for i in range(3):
            yield strata.tensor(float(i))


def functions() -> None:
    x = strata.randn(2, 3, 8, 8)
    weight = strata.randn(4, 3, 3, 3)
    assert_type(F.conv2d(x, weight, None, stride=1, padding=1), Tensor)
    assert_type(F.conv2d(x, weight, padding=(1, 1), groups=1), Tensor)
    pooled: Tensor = F.max_pool2d(x, 2)
    assert_type(F.avg_pool2d(x, (2, 2)), Tensor)
    assert_type(F.interpolate(x, scale_factor=2.0, mode="nearest"), Tensor)
    assert_type(F.softmax(x, dim=-1), Tensor)
    assert_type(F.dropout(x, 0.5, training=True), Tensor)
    assert_type(F.layer_norm(x, (8,)), Tensor)
    assert_type(F.pad(x, (1, 1)), Tensor)
    assert_type(F.mse_loss(pooled, strata.zeros_like(pooled), reduction="sum"), Tensor)
    assert_type(F.scaled_dot_product_attention(x, x, x, is_causal=True), Tensor)
    assert_type(F.one_hot(strata.tensor([0, 2]), num_classes=3), Tensor)
    assert_type(strata.linalg.norm(x), Tensor)
    q, r = strata.linalg.qr(strata.randn(3, 3))
    assert_type(strata.fft.rfft(x), Tensor)
    print(q @ r, strata.special.erf(x).abs().max())


def containers() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 3))
    out: Tensor = net(strata.randn(2, 1, 4, 4))
    named = nn.Sequential(OrderedDict([("a", nn.Linear(2, 2)), ("b", nn.ReLU())]))
    last = net[-1]
    last.reset_parameters()
    assert_type(net[:2], nn.Sequential)
    print(out, named, len(net), nn.Linear(2, 2).weight.shape, net[0].weight.shape)
    conv = nn.Conv2d(1, 2, (3, 3), stride=(1, 1), bias=False, device="cpu", dtype=strata.float32)
    assert_type(conv(strata.randn(1, 1, 5, 5)), Tensor)
    nn.init.kaiming_uniform_(conv.weight, nonlinearity="relu")


def data() -> None:
    dataset = TensorDataset(strata.randn(20, 4), strata.randint(0, 3, (20,)))
    train, test = random_split(dataset, [15, 5])
    loader = DataLoader(train, batch_size=4, shuffle=True, drop_last=True, num_workers=0)
    for x, y in loader:
        print(x.shape, y.shape)
    for i, (x, y) in enumerate(DataLoader(Squares(), batch_size=2, collate_fn=lambda samples: samples[0])):
        print(i, x.sum().item(), y.item())
    for batch in DataLoader(Stream(), batch_size=2):
        print(batch.mean())
    print(len(loader), len(test), len(Subset(dataset, [0, 1])), next(iter(loader))[0].shape)


def training() -> None:
    model = Net().to("cpu").to(strata.float32).train()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    groups = [{"params": model.layers.parameters(), "lr": 0.01}, {"params": [model.scale]}]
    other = optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    schedule = CosineAnnealingLR(optimizer, T_max=10, eta_min=1e-5)
    OneCycleLR(other, max_lr=0.1, total_steps=10)
    plateau = ReduceLROnPlateau(other, mode="min", factor=0.5, patience=2)
    SequentialLR(optimizer, [LambdaLR(optimizer, lambda epoch: 0.9**epoch), StepLR(optimizer, 2, gamma=0.5)], [3])
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    scaler = strata.amp.GradScaler("cpu", enabled=False)
    x, y = strata.randn(5, 4), strata.tensor([0, 1, 2, 0, 1])
    for _epoch in range(2):
        optimizer.zero_grad(set_to_none=True)
        with strata.autocast("cpu", dtype=strata.bfloat16, enabled=False):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        plateau.step(loss.item())
        rate: float = schedule.get_last_lr()[0] + optimizer.param_groups[0]["lr"]
        print(rate)
    total = sum(p.numel() for p in model.parameters() if p.requires_grad)
    for name, p in model.named_parameters():
        if p.grad is not None:
            print(name, p.grad.norm().item(), p.shape)
    model.eval()
    for p in model.parameters():
        p.requires_grad = False
    state = model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        strata.save({"model": state, "optimizer": optimizer.state_dict(), "epoch": 1}, f"{folder}/net.pt")
        saved = strata.load(f"{folder}/net.pt", map_location="cpu", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    handle = model.register_forward_hook(lambda module, args, output: None)
    handle.remove()
    tags, _, _ = Tagger()(strata.randn(2, 3, 4), scale=2.0)
    cube: Tensor = Cube.apply(strata.ones(2, requires_grad=True), 2.0)
    print(total, tags.shape, cube.sum(), evaluate(model, x), evaluate_too(model, x), predict(model, x[:1]))


if __name__ == "__main__":
    for part in (tensors, indexing, operators, autograd, functions, containers, data, training):
        part()
