"""The optimizers whose step is the same for every element: each class holds options and state, the step itself is one fused
pass over all parameters of a group (the ops _fused_*)."""

import strata
from strata import _C

from .optimizer import Optimizer, no_choice, require


class Elementwise(Optimizer):
    """An optimizer with tensors of state beside each parameter. Subclasses name them and call their op."""

    def _names(self, group):
        """Names of the state that this group's options ask for."""
        raise NotImplementedError

    def _update(self, group, params, grads, state):
        """One step; state[name] is a list with a tensor per parameter."""
        raise NotImplementedError

    def _fresh(self, name, param, group):
        """A parameter's state before the first step."""
        return strata.zeros(()) if name == "step" else strata.zeros_like(param, requires_grad=False)

    def step(self, closure=None):
        """One step. A closure, if given, computes the loss and its gradients first; its result is returned."""
        loss = None
        if closure is not None:
            with strata.enable_grad():
                loss = closure()
        with strata.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    self._step_group(group, params)
        return loss

    def _step_group(self, group, params):
        names = self._names(group)
        state = {name: [] for name in names}
        for p in params:
            mine = self.state[p]
            for name in names:
                if mine.get(name) is None:
                    mine[name] = self._fresh(name, p, group)
                state[name].append(mine[name])
        self._update(group, params, [p.grad for p in params], state)


def _check_betas(name, betas):
    for i, beta in enumerate(betas):
        require(name, 0 <= beta < 1, f"beta parameter at index {i}", beta)


class SGD(Elementwise):
    """Stochastic gradient descent, with momentum, dampening, Nesterov's look-ahead and L2 weight decay.

    >>> p = strata.ones(2, requires_grad=True)
    >>> (p * p).sum().backward()
    >>> strata.optim.SGD([p], lr=0.25).step()
    >>> p
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, **options
    ):
        no_choice("SGD", options)
        require("SGD", lr >= 0, "learning rate", lr)
        require("SGD", momentum >= 0, "momentum value", momentum)
        require("SGD", weight_decay >= 0, "weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def _step_group(self, group, params):
        options = (
            float(group["lr"]),
            group["momentum"],
            group["dampening"],
            group["weight_decay"],
            group["nesterov"],
            group["maximize"],
        )
        if not group["momentum"]:
            return _C.ops["_fused_sgd"](params, [p.grad for p in params], [], *options)
        new = [p for p in params if self.state[p].get("momentum_buffer") is None]
        old = [p for p in params if self.state[p].get("momentum_buffer") is not None] if len(new) < len(params) else []
        for p in new:
            self.state[p]["momentum_buffer"] = strata.empty_like(p, requires_grad=False)
        for first, some in ((True, new), (False, old)):
            if some:
                buffers = [self.state[p]["momentum_buffer"] for p in some]
                _C.ops["_fused_sgd"](some, [p.grad for p in some], buffers, *options, first)


class Adam(Elementwise):
    """Adam: steps scaled by running means of the gradient and of its square; L2 weight decay, or AdamW's with
    `decoupled_weight_decay=True`.

    >>> p = strata.ones(2, requires_grad=True)
    >>> p.sum().backward()
    >>> strata.optim.Adam([p], lr=0.5).step()
    >>> p
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        maximize=False,
        decoupled_weight_decay=False,
        **options,
    ):
        name = type(self).__name__
        no_choice(name, options)
        require(name, lr >= 0, "learning rate", lr)
        require(name, eps >= 0, "epsilon value", eps)
        require(name, weight_decay >= 0, "weight_decay value", weight_decay)
        _check_betas(name, betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _names(self, group):
        return ("step", "exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))

    def _update(self, group, params, grads, state):
        _C.ops["_fused_adam"](
            params,
            grads,
            state["step"],
            state["exp_avg"],
            state["exp_avg_sq"],
            state.get("max_exp_avg_sq", []),
            float(group["lr"]),
            *group["betas"],
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            group["maximize"],
        )


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters directly instead of joining the gradient.

    >>> p = strata.ones(2, requires_grad=True)
    >>> (0 * p).sum().backward()
    >>> strata.optim.AdamW([p], lr=0.1, weight_decay=0.5).step()
    >>> p
    tensor([0.9500, 0.9500], requires_grad=True)
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        **options,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True, **options
        )


class NAdam(Elementwise):
    """Adam with Nesterov momentum.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.NAdam([p], lr=0.1)
    """

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        maximize=False,
        **options,
    ):
        no_choice("NAdam", options)
        require("NAdam", lr >= 0, "learning rate", lr)
        require("NAdam", eps >= 0, "epsilon value", eps)
        require("NAdam", weight_decay >= 0, "weight_decay value", weight_decay)
        require("NAdam", momentum_decay >= 0, "momentum_decay value", momentum_decay)
        _check_betas("NAdam", betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
            },
        )

    def _names(self, group):
        return ("step", "mu_product", "exp_avg", "exp_avg_sq")

    def _fresh(self, name, param, group):
        return strata.ones(()) if name == "mu_product" else super()._fresh(name, param, group)

    def _update(self, group, params, grads, state):
        _C.ops["_fused_nadam"](
            params,
            grads,
            *state.values(),
            float(group["lr"]),
            *group["betas"],
            group["eps"],
            group["weight_decay"],
            group["momentum_decay"],
            group["decoupled_weight_decay"],
            group["maximize"],
        )


class RAdam(Elementwise):
    """Rectified Adam: follows the plain mean of the gradients until the variance can be trusted.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.RAdam([p], lr=0.1)
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        maximize=False,
        **options,
    ):
        no_choice("RAdam", options)
        require("RAdam", lr >= 0, "learning rate", lr)
        require("RAdam", eps >= 0, "epsilon value", eps)
        require("RAdam", weight_decay >= 0, "weight_decay value", weight_decay)
        _check_betas("RAdam", betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
            },
        )

    def _names(self, group):
        return ("step", "exp_avg", "exp_avg_sq")

    def _update(self, group, params, grads, state):
        _C.ops["_fused_radam"](
            params,
            grads,
            *state.values(),
            float(group["lr"]),
            *group["betas"],
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            group["maximize"],
        )


class Adamax(Elementwise):
    """Adam with the infinity norm in place of the second moment.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.Adamax([p], lr=0.1)
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *, maximize=False, **options):
        no_choice("Adamax", options)
        require("Adamax", lr >= 0, "learning rate", lr)
        require("Adamax", eps >= 0, "epsilon value", eps)
        require("Adamax", weight_decay >= 0, "weight_decay value", weight_decay)
        _check_betas("Adamax", betas)
        super().__init__(
            params,
            {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize},
        )

    def _names(self, group):
        return ("step", "exp_avg", "exp_inf")

    def _update(self, group, params, grads, state):
        _C.ops["_fused_adamax"](
            params,
            grads,
            *state.values(),
            float(group["lr"]),
            *group["betas"],
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )


class Adagrad(Elementwise):
    """Steps divided by the root of the sum of all squared gradients.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.Adagrad([p], lr=0.1)
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        *,
        maximize=False,
        **options,
    ):
        no_choice("Adagrad", options)
        require("Adagrad", lr >= 0, "learning rate", lr)
        require("Adagrad", lr_decay >= 0, "lr_decay value", lr_decay)
        require("Adagrad", weight_decay >= 0, "weight_decay value", weight_decay)
        require("Adagrad", initial_accumulator_value >= 0, "initial_accumulator_value value", initial_accumulator_value)
        require("Adagrad", eps >= 0, "epsilon value", eps)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "maximize": maximize,
            },
        )

    def _names(self, group):
        return ("step", "sum")

    def _fresh(self, name, param, group):
        if name == "sum":
            return strata.full_like(param, group["initial_accumulator_value"], requires_grad=False)
        return super()._fresh(name, param, group)

    def _update(self, group, params, grads, state):
        _C.ops["_fused_adagrad"](
            params,
            grads,
            *state.values(),
            float(group["lr"]),
            group["lr_decay"],
            group["weight_decay"],
            group["eps"],
            group["maximize"],
        )


class Adadelta(Elementwise):
    """Steps as large as recent steps, relative to recent gradients.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.Adadelta([p])
    """

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, *, maximize=False, **options):
        no_choice("Adadelta", options)
        require("Adadelta", lr >= 0, "learning rate", lr)
        require("Adadelta", 0 <= rho <= 1, "rho value", rho)
        require("Adadelta", eps >= 0, "epsilon value", eps)
        require("Adadelta", weight_decay >= 0, "weight_decay value", weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def _names(self, group):
        return ("step", "square_avg", "acc_delta")

    def _update(self, group, params, grads, state):
        _C.ops["_fused_adadelta"](
            params,
            grads,
            *state.values(),
            float(group["lr"]),
            group["rho"],
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )


class RMSprop(Elementwise):
    """Steps divided by the root of a running mean of squared gradients; optionally centred, with momentum.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.RMSprop([p], lr=0.1, momentum=0.9)
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        *,
        maximize=False,
        **options,
    ):
        no_choice("RMSprop", options)
        require("RMSprop", lr >= 0, "learning rate", lr)
        require("RMSprop", eps >= 0, "epsilon value", eps)
        require("RMSprop", momentum >= 0, "momentum value", momentum)
        require("RMSprop", weight_decay >= 0, "weight_decay value", weight_decay)
        require("RMSprop", alpha >= 0, "alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )

    def _names(self, group):
        return (
            "step",
            "square_avg",
            *(("momentum_buffer",) if group["momentum"] > 0 else ()),
            *(("grad_avg",) if group["centered"] else ()),
        )

    def _update(self, group, params, grads, state):
        _C.ops["_fused_rmsprop"](
            params,
            grads,
            state["step"],
            state["square_avg"],
            state.get("momentum_buffer", []),
            state.get("grad_avg", []),
            float(group["lr"]),
            group["alpha"],
            group["eps"],
            group["weight_decay"],
            group["momentum"],
            group["maximize"],
        )


class ASGD(Elementwise):
    """Averaged stochastic gradient descent; the average stands in `state[p]["ax"]`.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.ASGD([p], lr=0.1)
    """

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, *, maximize=False, **options):
        no_choice("ASGD", options)
        require("ASGD", lr >= 0, "learning rate", lr)
        require("ASGD", weight_decay >= 0, "weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )

    def _names(self, group):
        return ("step", "eta", "mu", "ax")

    def _fresh(self, name, param, group):
        if name == "eta":
            return strata.full((), float(group["lr"]))
        return strata.ones(()) if name == "mu" else super()._fresh(name, param, group)

    def _update(self, group, params, grads, state):
        _C.ops["_fused_asgd"](
            params,
            grads,
            *state.values(),
            float(group["lr"]),
            group["lambd"],
            group["alpha"],
            group["t0"],
            group["weight_decay"],
            group["maximize"],
        )


class Rprop(Elementwise):
    """Resilient propagation: a step size per element that grows while the gradient keeps its sign.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.Rprop([p], lr=0.1)
    """

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, maximize=False, **options):
        no_choice("Rprop", options)
        require("Rprop", lr >= 0, "learning rate", lr)
        require("Rprop", 0 < etas[0] < 1 < etas[1], "eta values", etas)
        super().__init__(params, {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes), "maximize": maximize})

    def _names(self, group):
        return ("step", "prev", "step_size")

    def _fresh(self, name, param, group):
        if name == "step_size":
            return strata.full_like(param, float(group["lr"]), requires_grad=False)
        return super()._fresh(name, param, group)

    def _update(self, group, params, grads, state):
        _C.ops["_fused_rprop"](params, grads, *state.values(), *group["etas"], *group["step_sizes"], group["maximize"])
