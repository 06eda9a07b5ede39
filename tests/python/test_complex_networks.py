"""Networks of complex numbers: initial values, optimizers, gradient clipping. The numbers are those of PyTorch 2.15."""

import copy

import pytest
import strata
from strata import nn, optim

START = [1 + 2j, 3 - 1j]
STEPS = [  # three steps of lr=0.1 on the sum of |p|^2
    (optim.SGD, {}, [0.512 + 1.024j, 1.536 - 0.512j]),
    (optim.SGD, {"momentum": 0.9}, [0.062 + 0.124j, 0.186 - 0.062j]),
    (
        optim.SGD,
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        [-0.140468 - 0.280937j, -0.421405 + 0.140468j],
    ),
    (optim.Adam, {}, [0.7016 + 1.7006j, 2.7004 - 0.7016j]),
    (optim.Adam, {"amsgrad": True, "weight_decay": 0.1}, [0.701586 + 1.700623j, 2.700382 - 0.701586j]),
    (optim.AdamW, {}, [0.6989 + 1.6949j, 2.6917 - 0.6989j]),
    (optim.RMSprop, {"momentum": 0.5, "centered": True}, [-0.298191 - 0.454475j, 0.144085 + 0.298191j]),
    (optim.Adagrad, {}, [0.7805 + 1.7758j, 2.7744 - 0.7805j]),
    (optim.Adagrad, {"initial_accumulator_value": 1.0}, [0.796741 + 1.780417j, 2.776454 - 0.796741j]),
    (optim.Rprop, {}, [0.636 + 1.636j, 2.636 - 0.636j]),
    (optim.Adadelta, {"lr": 1.0}, [0.990309 + 1.990301j, 2.990298 - 0.990309j]),
    (optim.Adamax, {}, [0.715499 + 1.707648j, 2.70501 - 0.715499j]),
    (optim.NAdam, {}, [0.752729 + 1.747509j, 2.745876 - 0.752729j]),
    (optim.RAdam, {}, [0.462303 + 0.924607j, 1.38691 - 0.462303j]),
    (optim.ASGD, {}, [0.511984 + 1.023967j, 1.535951 - 0.511984j]),
    (optim.LBFGS, {}, [0.001968 + 0.003936j, 0.005904 - 0.001968j]),
]


def close(tensor, expected, tolerance=1e-4):
    found = tensor.detach().tolist()
    assert all(abs(a - b) < tolerance for a, b in zip(found, expected, strict=True)), (found, expected)


@pytest.mark.parametrize("kind, options, expected", STEPS)
def test_optimizers(kind, options, expected):
    p = nn.Parameter(strata.tensor(START))
    real = nn.Parameter(strata.ones(1))  # the same optimizer has real parameters too
    optimizer = kind([p, real], **{"lr": 0.1, **options})

    def closure():
        optimizer.zero_grad()
        loss = (p.abs() ** 2).sum() + (real**2).sum() * (kind is not optim.LBFGS)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    close(p, expected)
    if kind is not optim.LBFGS:
        assert real.item() < 1
        assert all(s.dtype is strata.complex64 for s in optimizer.state[p].values() if s.dim())


def test_state_of_an_optimizer_is_saved_and_loaded():
    p = nn.Parameter(strata.tensor(START))
    first = optim.Adam([p], lr=0.1)
    gradient = strata.tensor([1 - 1j, 2j])
    for _ in range(2):
        p.grad = gradient.clone()
        first.step()
    q = nn.Parameter(p.detach().clone())
    second = optim.Adam([q], lr=0.1)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for parameter, optimizer in ((p, first), (q, second)):
        parameter.grad = gradient.clone()
        optimizer.step()
    assert strata.equal(p, q) and second.state[q]["exp_avg"].dtype is strata.complex64


def test_gradients_are_clipped():
    p = nn.Parameter(strata.tensor(START))
    p.grad = strata.tensor([3 + 4j, 0j])
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(5)
    close(p.grad, [0.6 + 0.8j, 0])
    p.grad = strata.tensor([3 + 4j, 1j])
    assert nn.utils.clip_grad_norm_([p], 1.0, norm_type=float("inf")).item() == pytest.approx(5)
    close(p.grad, [0.6 + 0.8j, 0.2j])


MODULES = [
    lambda **options: nn.Linear(3, 2, **options),
    lambda **options: nn.Conv1d(1, 2, 2, **options),
    lambda **options: nn.Embedding(3, 2, **options),
    lambda **options: nn.Bilinear(2, 2, 2, **options),
]


@pytest.mark.parametrize("make", MODULES)
@pytest.mark.parametrize("dtype", [strata.complex64, strata.complex128])
def test_modules_are_made_of_complex_numbers(make, dtype):
    module = make(dtype=dtype)
    assert all(p.dtype is dtype and (p.imag != 0).any() for p in module.parameters())


def parts(tensor):
    return strata.view_as_real(tensor).flatten(0, -2)


def test_both_parts_of_initial_values_are_drawn():
    x = strata.empty(400, 300, dtype=strata.complex64)
    x.uniform_(-2, 3)
    assert (
        -2 <= parts(x).min() and parts(x).max() < 3 and strata.allclose(parts(x).mean(0), strata.tensor(0.5), atol=0.02)
    )
    x.normal_(1, 2)  # both parts have the mean; the variance is that of the number
    assert strata.allclose(parts(x).std(0), strata.tensor(2**0.5), atol=0.02)
    assert strata.allclose(parts(x).mean(0), strata.tensor(1.0), atol=0.02)
    nn.init.xavier_uniform_(x)
    assert parts(x).abs().max().item() == pytest.approx((6 / 700) ** 0.5, rel=1e-3)
    nn.init.kaiming_normal_(x, nonlinearity="linear")
    assert strata.allclose(parts(x).std(0), strata.tensor((1 / 600) ** 0.5), atol=1e-3)
    assert nn.init.ones_(x).mean().item() == 1 and nn.init.zeros_(x).abs().max() == 0
    assert nn.init.constant_(x, 2.5)[0, 0].item() == 2.5
    assert strata.equal(nn.init.eye_(x), strata.eye(400, 300, dtype=strata.complex64))
    strata.manual_seed(1)
    first = strata.empty(3, dtype=strata.complex128).normal_()
    strata.manual_seed(1)
    assert strata.equal(strata.empty(3, dtype=strata.complex128).normal_(), first)


def test_a_network_learns():
    strata.manual_seed(0)
    x = strata.randn(64, 3, dtype=strata.complex64)
    y = x @ strata.tensor([[1j], [2.0], [-1 + 1j]])
    net = nn.Linear(3, 1, dtype=strata.complex64)
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        loss = ((net(x) - y).abs() ** 2).mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3
    close(net.weight[0], [1j, 2, -1 + 1j], 0.05)
