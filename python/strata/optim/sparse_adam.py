"""Steps for sparse gradients, such as those of Embedding(sparse=True): of SGD and Adagrad, and the optimizer SparseAdam. The
arithmetic of Adagrad and Adam is in the library."""

import strata
from strata import _C

from .optimizer import Optimizer, flat_options, loss_of, one_number


def step_sparse(optimizer, rule, group, p):
    """One step of a parameter whose gradient is sparse; raises for optimizers that take none."""
    if rule not in ("SGD", "Adagrad"):
        advice = ", please consider SparseAdam instead" if rule in ("Adam", "AdamW") else ""
        raise RuntimeError(f"{rule} does not support sparse gradients{advice}")
    options = flat_options(group)
    for name in ("weight_decay", "master_weights"):
        if options.get(name):
            raise RuntimeError(f"{rule}: {name} option is not compatible with sparse gradients")
    (_sgd if rule == "SGD" else _adagrad)(optimizer.state[p], options, p, p.grad)


def _sgd(state, options, p, grad):
    """The momentum of a parameter with sparse gradients is sparse too: it has the rows of all gradients so far."""
    if options["maximize"]:
        grad = -grad
    momentum = options["momentum"]
    if momentum:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = grad.detach().clone()
        elif not buffer.is_sparse:
            raise RuntimeError(
                "SGD: a parameter whose gradients were dense has a sparse one, and its momentum is dense; use one kind of "
                "gradients, or no momentum"
            )
        else:
            buffer = buffer * momentum + grad * (1 - options["dampening"])
        state["momentum_buffer"] = buffer
        grad = grad + buffer * momentum if options["nesterov"] else buffer
    p.add_(grad, alpha=-float(options["lr"]))


def _adagrad(state, options, p, grad):
    if "sum" not in state:
        state["sum"] = strata.full_like(p, options["initial_accumulator_value"], requires_grad=False)
        state["step"] = strata.zeros((), dtype=strata.float64 if p.dtype == strata.float64 else strata.float32)
    state["step"] += 1
    numbers = (state["step"].item(), float(options["lr"]), options["lr_decay"], options["eps"])
    _C._sparse_adagrad(p, grad._indices(), grad._values(), options["maximize"], state["sum"], *numbers)


class SparseAdam(Optimizer):
    """Adam for sparse gradients, such as those of `Embedding(sparse=True)`: a step changes the rows that the gradient has, and
    the running means of these rows; the means of the others do not decay.

    >>> table = strata.nn.Parameter(strata.ones(3, 2))
    >>> strata.nn.functional.embedding(strata.tensor([2]), table, sparse=True).sum().backward()
    >>> strata.optim.SparseAdam([table], lr=0.5).step()
    >>> table.detach()
    tensor([[1.0000, 1.0000],
            [1.0000, 1.0000],
            [0.5000, 0.5000]])
    """

    _numbers = frozenset()  # step is an int

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if not one_number("lr", lr) > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _check_group(self, group):
        for i, p in enumerate(group["params"]):
            place = [len(self.param_groups), i]
            if p.is_sparse:
                raise ValueError(f"Sparse params at indices [{place}]: SparseAdam requires dense parameter tensors")
            if p.is_complex():
                raise ValueError(f"Complex params at indices [{place}]: SparseAdam does not support complex parameters")
        _C._check_options("SparseAdam", flat_options(group))

    def step(self, closure=None):
        """One step. A closure, if given, computes the loss and its gradients first; its result is returned."""
        loss = loss_of(closure)
        with strata.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if not all(p.grad.is_sparse for p in params):
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                options = flat_options(group)
                for p in params:
                    self._update(self.state[p], options, p, p.grad)
        return loss

    @staticmethod
    def _update(state, options, p, grad):
        if not state:
            state["step"] = 0
            state["exp_avg"] = strata.zeros_like(p, requires_grad=False)
            state["exp_avg_sq"] = strata.zeros_like(p, requires_grad=False)
        state["step"] += 1
        if grad._values().numel() == 0:
            return
        means = (state["exp_avg"], state["exp_avg_sq"])
        numbers = (state["step"], float(options["lr"]), options["beta1"], options["beta2"], options["eps"])
        _C._sparse_adam(p, grad._indices(), grad._values(), options["maximize"], *means, *numbers)
