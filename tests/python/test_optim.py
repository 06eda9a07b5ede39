"""Optimizers against float64 NumPy; saving and resuming; runs that must reach a loss."""

import copy
import pickle

import numpy as np
import optimizer_formulas
import pytest
import strata
from optimizer_formulas import CASES
from optimizer_runs import closure_of, parameter, take_steps
from strata import optim

IDS = [f"{name}-{'-'.join(options)}" for name, options in CASES]
SHAPES = [(3, 4), (37,), (), (0, 2)]


def gradient(rng, shape):
    """Away from zero: where its sign decides, rounding must not."""
    g = rng.standard_normal(shape)
    return np.where(np.abs(g) < 0.05, 0.05, g)


def to_numpy(t):
    return t.detach().to(strata.float64).numpy()


def make_run(steps=6, seed=0, shapes=SHAPES):
    """Values and, for every step, gradients; the second parameter has none at some steps."""
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal(s) for s in shapes]
    grads = [[gradient(rng, s) for s in shapes] for _ in range(steps)]
    for t in range(steps):
        if t % 3 == 1 and len(shapes) > 1:
            grads[t][1] = None
    return values, grads


def expected(name, options, values, grads):
    results = []
    for i, p in enumerate(values):
        state, t = {}, 0
        for now in grads:
            if now[i] is not None:
                t += 1
                p = getattr(optimizer_formulas, name)(p, now[i], state, t, **options)
        results.append(p)
    return results


@pytest.mark.parametrize("dtype, tolerance", [(strata.float64, 1e-11), (strata.float32, 2e-5)], ids=["f64", "f32"])
@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_steps_are_the_formula(name, options, dtype, tolerance):
    values, grads = make_run()
    if dtype == strata.float32:
        values = [v.astype("float32").astype("float64") for v in values]
        grads = [[None if g is None else g.astype("float32").astype("float64") for g in now] for now in grads]
    params = [parameter(v, dtype) for v in values]
    take_steps(getattr(optim, name)(params, **options), params, grads)
    for p, want in zip(params, expected(name, options, values, grads), strict=True):
        # An average rounded in its state: relative to the values that took part, not to what is left of them.
        np.testing.assert_allclose(to_numpy(p), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [strata.float16, strata.bfloat16], ids=str)
@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_a_step_in_16_bits_rounds_once(name, options, dtype):
    values, grads = make_run(steps=1)
    params = [parameter(v, dtype) for v in values]
    values = [to_numpy(p) for p in params]
    grads = [[to_numpy(strata.tensor(g.tolist(), dtype=dtype).reshape(g.shape)) for g in now] for now in grads]
    take_steps(getattr(optim, name)(params, **options), params, grads)
    unit = strata.finfo(dtype).eps
    for p, want in zip(params, expected(name, options, values, grads), strict=True):
        np.testing.assert_allclose(to_numpy(p), want, rtol=0.51 * unit, atol=0.51 * unit * 0.1)


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_layout_of_parameters_does_not_matter(name, options):
    values, grads = make_run(shapes=[(2, 3, 4, 5)])
    plain = parameter(values[0])
    channels_last = parameter(values[0]).detach().contiguous(memory_format=strata.channels_last).requires_grad_()
    room = strata.zeros(4, 3, 4, 5)
    strided = room[::2]
    strided.copy_(plain.detach())
    strided.requires_grad_()
    for p in (plain, channels_last, strided):
        take_steps(getattr(optim, name)([p], **options), [p], grads)
    assert channels_last.is_contiguous(memory_format=strata.channels_last) and not strided.is_contiguous()
    assert strata.equal(plain, channels_last) and strata.equal(plain, strided)
    assert room[1::2].abs().max().item() == 0


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_same_bits_for_any_number_of_threads(name, options):
    values, grads = make_run(steps=3, shapes=[(70001,), (300, 301)])
    results, before = [], strata.get_num_threads()
    for threads in (1, 2):
        strata.set_num_threads(threads)
        params = [parameter(v) for v in values]
        take_steps(getattr(optim, name)(params, **options), params, grads)
        results.append(params)
    strata.set_num_threads(before)
    assert all(strata.equal(a, b) for a, b in zip(*results, strict=True))


# --- Muon and L-BFGS ---------------------------------------------------------------------------------------------------


def muon_step(
    p, g, s, lr=0.1, weight_decay=0.1, momentum=0.95, nesterov=True, adjust=lambda a, b: max(1, a / b) ** 0.5
):
    s["b"] = momentum * s.get("b", 0) + (1 - momentum) * g
    m = (1 - momentum) * g + momentum * s["b"] if nesterov else s["b"]
    x = m / np.linalg.norm(m)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return p - lr * weight_decay * p - lr * adjust(*p.shape) * x


@pytest.mark.parametrize(
    "options, adjust",
    [
        ({}, lambda a, b: max(1, a / b) ** 0.5),
        ({"adjust_lr_fn": "match_rms_adamw", "nesterov": False}, lambda a, b: 0.2 * max(a, b) ** 0.5),
        ({"adjust_lr_fn": "spectral_unclamped", "weight_decay": 0}, lambda a, b: (a / b) ** 0.5),
    ],
)
def test_muon_follows_an_orthogonal_matrix(options, adjust):
    values, grads = make_run(steps=4, shapes=[(8, 5), (1, 1), (4, 9)])
    grads = [[gradient(np.random.default_rng(i), v.shape) for v in values] for i in range(4)]
    params = [parameter(v) for v in values]
    take_steps(optim.Muon(params, lr=0.1, **options), params, grads)
    plain = {k: v for k, v in options.items() if k != "adjust_lr_fn"}
    for i, p in enumerate(values):
        state = {}
        for now in grads:
            p = muon_step(p, now[i], state, adjust=adjust, **plain)
        # The iteration runs in bfloat16: 8 bits, of steps of size lr times the adjustment.
        np.testing.assert_allclose(to_numpy(params[i]), p, atol=4 * 0.1 * adjust(*p.shape) * 0.03)


def test_muon_wants_matrices():
    with pytest.raises(ValueError, match="only supports 2D parameters, found a parameter of shape \\[3\\]"):
        optim.Muon([strata.ones(3, requires_grad=True)])
    with pytest.raises(ValueError, match="adjust_lr_fn 'best' is not supported"):
        optim.Muon([strata.ones(3, 3, requires_grad=True)], adjust_lr_fn="best")


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("start", [[-1.2, 1.0], [0.5, 0.5, 1.5, 0.5]])
def test_lbfgs_reaches_the_minimum_of_rosenbrock(start):
    x = strata.tensor(start, dtype=strata.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=200, tolerance_change=1e-15)
    first = optimizer.step(closure_of(optimizer, rosenbrock, x))
    assert first.item() == pytest.approx(rosenbrock(strata.tensor(start, dtype=strata.float64)).item())
    np.testing.assert_allclose(x.detach().numpy(), 1, atol=1e-6)


def test_lbfgs_solves_least_squares_exactly():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((20, 6)), rng.standard_normal(20)
    x = strata.zeros(6, dtype=strata.float64, requires_grad=True)
    a_, b_ = strata.from_numpy(a), strata.from_numpy(b)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=60)
    optimizer.step(closure_of(optimizer, lambda x: ((a_ @ x - b_) ** 2).sum(), x))
    np.testing.assert_allclose(x.detach().numpy(), np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-5)


def test_lbfgs_first_step_is_the_gradient_scaled():
    x = strata.tensor([3.0, -1.0], dtype=strata.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], lr=0.5, max_iter=1)
    optimizer.step(closure_of(optimizer, lambda x: (x**2).sum(), x))
    gradient = np.array([6.0, -2.0])
    np.testing.assert_allclose(x.detach().numpy(), [3, -1] - 0.5 / 8 * gradient, rtol=1e-14)


def test_lbfgs_resumes_bit_for_bit():
    def run(steps, x, state=None):
        optimizer = optim.LBFGS([x], max_iter=4, history_size=3, line_search_fn="strong_wolfe")
        if state:
            optimizer.load_state_dict(state)
        for _ in range(steps):
            optimizer.step(closure_of(optimizer, rosenbrock, x))
        return optimizer

    whole = strata.tensor([-1.2, 1.0, 0.5], requires_grad=True)
    run(4, whole)
    half = strata.tensor([-1.2, 1.0, 0.5], requires_grad=True)
    state = pickle.loads(pickle.dumps(run(2, half).state_dict()))
    assert set(state["state"][0]) >= {"func_evals", "n_iter", "d", "t", "old_dirs", "old_stps", "ro", "H_diag"}
    run(2, half, state)
    assert strata.equal(whole, half)


def test_lbfgs_passes_the_closures_exception_and_puts_the_parameters_back():
    x = strata.tensor([-1.2, 1.0], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")
    calls = []

    def closure():
        calls.append(x.detach().clone())
        if len(calls) == 3:
            raise KeyboardInterrupt("enough")
        return closure_of(optimizer, rosenbrock, x)()

    with pytest.raises(KeyboardInterrupt, match="enough"):
        optimizer.step(closure)
    assert not strata.equal(calls[2], calls[0]) and strata.isfinite(x).all()
    assert any(strata.equal(x.detach(), c) for c in calls[:1])


def test_lbfgs_bad_arguments():
    x = strata.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optim.LBFGS([x], line_search_fn="armijo")
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        optim.LBFGS([{"params": [x]}, {"params": [strata.ones(1, requires_grad=True)]}])
    with pytest.raises(ValueError, match="closure must return the loss"):
        optim.LBFGS([x]).step(lambda: x * 2)
    with pytest.raises(ValueError, match="max_iter"):
        optim.LBFGS([x], max_iter=-1)


# --- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, options", [*CASES, ("Muon", {"lr": 0.1})], ids=[*IDS, "Muon"])
def test_state_dict_resumes_bit_for_bit(name, options):
    values, grads = make_run(shapes=[(3, 4), (5, 2)])
    make = getattr(optim, name)
    whole = [parameter(v) for v in values]
    take_steps(make(whole, **options), whole, grads)
    half = [parameter(v) for v in values]
    first = make(half, **options)
    take_steps(first, half, grads[:3])
    saved = pickle.loads(pickle.dumps(first.state_dict()))
    second = make(half)
    second.load_state_dict(saved)
    take_steps(second, half, grads[3:])
    assert all(strata.equal(a, b) for a, b in zip(whole, half, strict=True))
    assert second.state_dict()["param_groups"] == first.state_dict()["param_groups"]


def test_loaded_state_is_a_copy():
    p = parameter([1.0, 2.0])
    optimizer = optim.Adam([p])
    p.sum().backward()
    optimizer.step()
    saved = optimizer.state_dict()
    other = optim.Adam([parameter([1.0, 2.0])])
    other.load_state_dict(saved)
    saved["state"][0]["exp_avg"].zero_()
    (state,) = other.state.values()
    assert state["exp_avg"].abs().min().item() > 0


def test_state_dict_in_pytorchs_format():
    """As torch.optim.AdamW writes it: with its switches, and in old files the step as a plain number."""
    group = {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.01, "amsgrad": False, "maximize": False}
    group |= {"foreach": None, "capturable": False, "differentiable": False, "fused": None, "params": [0, 1]}
    mean, square = strata.tensor([0.5, -0.5]), strata.tensor([0.25, 0.5])
    state = {0: {"step": 4, "exp_avg": mean, "exp_avg_sq": square}}
    p, q = parameter([1.0, 2.0]), parameter([3.0])
    optimizer = optim.AdamW([p, q])
    optimizer.load_state_dict({"state": state, "param_groups": [group]})
    p.grad = strata.tensor([1.0, -1.0])
    optimizer.step()
    want = optimizer_formulas.AdamW(
        np.array([1.0, 2.0]),
        np.array([1.0, -1.0]),
        {"m": np.array([0.5, -0.5]), "v": np.array([0.25, 0.5])},
        5,
        lr=0.1,
        betas=(0.9, 0.99),
    )
    np.testing.assert_allclose(to_numpy(p), want, rtol=1e-6)
    assert optimizer.state[p]["step"].item() == 5


def test_state_dict_that_does_not_fit():
    optimizer = optim.Adam([parameter([1.0])])
    good = optimizer.state_dict()
    with pytest.raises(ValueError, match="2 parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": good["param_groups"] * 2})
    with pytest.raises(ValueError, match="2 parameters in group 0"):
        optimizer.load_state_dict({"state": {}, "param_groups": [good["param_groups"][0] | {"params": [0, 1]}]})
    with pytest.raises(ValueError, match="parameter 7"):
        optimizer.load_state_dict({"state": {7: {}}, "param_groups": good["param_groups"]})


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_copies_go_on_alike(copies):
    p = parameter([1.0, 2.0])
    optimizer = optim.Adam([p], lr=0.1)
    take_steps(optimizer, [p], [[np.ones(2)]])
    other = copies(optimizer)
    (q,) = other.param_groups[0]["params"]
    assert q is not p
    take_steps(optimizer, [p], [[np.ones(2)]])
    take_steps(other, [q], [[np.ones(2)]])
    assert strata.equal(p, q)


def test_a_step_that_fails_leaves_no_state():
    p = parameter([1.0, 2.0])
    p.requires_grad_(False)
    q = strata.ones(2, dtype=strata.int64)
    optimizer = optim.SGD([q], lr=0.1, momentum=0.9)
    q.grad = strata.ones(2, dtype=strata.int64)
    with pytest.raises(TypeError, match="floating dtype"):
        optimizer.step()
    assert optimizer.state_dict()["state"].get(0, {}) == {}


# --- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, options",
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("Adam", {"lr": 0.1}),
        ("AdamW", {"lr": 0.1, "weight_decay": 0}),
        ("NAdam", {"lr": 0.03}),
        ("RAdam", {"lr": 0.1}),
        ("Adamax", {"lr": 0.1}),
        ("Adagrad", {"lr": 0.5}),
        ("Adadelta", {"lr": 0.3, "eps": 1e-3}),
        ("RMSprop", {"lr": 0.01, "momentum": 0.5}),
        ("ASGD", {"lr": 0.2}),
        ("Rprop", {"lr": 0.01}),
    ],
)
def test_least_squares_is_solved(name, options):
    rng = np.random.default_rng(1)
    a, truth = rng.standard_normal((64, 4)), rng.standard_normal(4)
    a_, b_ = strata.from_numpy(a), strata.from_numpy(a @ truth)
    x = strata.zeros(4, dtype=strata.float64, requires_grad=True)
    optimizer = getattr(optim, name)([x], **options)
    for _ in range(400):
        loss = optimizer.step(closure_of(optimizer, lambda x: ((a_ @ x - b_) ** 2).mean(), x))
    assert loss.item() < 1e-4
