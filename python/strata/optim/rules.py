"""The optimizers whose step is one fused op over all parameters of a group. What each keeps beside a parameter, and which of its
options its op takes, stands in the library's table of rules."""

import strata
from strata import _C

from .optimizer import Optimizer, flat_options, no_choice

_RULES = _C._optimizer_rules()


def _fixed(numbers):
    """A list as a tuple; what is neither is refused by name later."""
    return tuple(numbers) if isinstance(numbers, list) else numbers


class Fused(Optimizer):
    """Base of the optimizers in the library's table.

    With `capturable=True` step counts lie on the parameters' device, so that a graph can capture step().
    """

    def __init__(self, params, switches, **options):
        if self._numbers:
            options["capturable"] = bool(switches.pop("capturable", False))
        no_choice(type(self).__name__, switches)
        super().__init__(params, options)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls.__name__ in _RULES and cls.__module__ == __name__:  # a subclass of yours keeps its parent's rule
            cls._rule = _RULES[cls.__name__]
            cls._op = staticmethod(_C.ops[cls._rule["op"]])
            cls._numbers = frozenset(name for name, is_number, *_ in cls._rule["state"] if is_number)

    def _check_group(self, group):
        options = flat_options(group)
        for name in self._rule["options"]:
            if name not in options:
                raise TypeError(f"{type(self).__name__}: {name} must be a number, found {group.get(name)!r}")
        _C._check_options(type(self).__name__, options)
        for p in group["params"] if self._rule["matrices_only"] else ():
            if p.ndim != 2:
                raise ValueError(
                    f"{type(self).__name__} only supports 2D parameters, found a parameter of shape {list(p.shape)}; "
                    "give the others to another optimizer, such as AdamW"
                )

    def step(self, closure=None):
        """One step. A closure, if given, computes the loss and its gradients first; its result is returned."""
        loss = None
        if closure is not None:
            with strata.enable_grad():
                loss = closure()
        with strata.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if self._rule["first"]:  # parameters whose state is new take a pass of their own
                    name = self._rule["state"][0][0]
                    known = [self.state.get(p, {}).get(name) is not None for p in params]  # before the pass makes it
                    self._update(group, [p for p, old in zip(params, known, strict=True) if not old], first=True)
                    params = [p for p, old in zip(params, known, strict=True) if old]
                self._update(group, params)
        return loss

    def _update(self, group, params, **first):
        if not params:
            return
        options = flat_options(group)
        lists, new = [], []
        for name, is_number, start, option, needs in self._rule["state"]:
            values = []
            lists.append(values)
            if needs is not None and not options[needs]:
                continue
            for p in params:
                value = self.state.get(p, {}).get(name)
                if value is None:
                    _C._check_new_state(type(self).__name__, p.device)
                    begin = float(start if option is None else options[option])
                    if is_number:
                        dtype = strata.float64 if p.dtype == strata.float64 else strata.float32
                        value = strata.full(
                            (), begin, dtype=dtype, device=p.device if group.get("capturable") else "cpu"
                        )
                    else:
                        value = strata.full_like(p, begin, requires_grad=False)
                    new.append((p, name, value))
                values.append(value)
        self._op(params, [p.grad for p in params], *lists, *(options[name] for name in self._rule["options"]), **first)
        for p, name, value in new:  # only a step that was taken leaves new state behind
            self.state[p][name] = value


class SGD(Fused):
    """Stochastic gradient descent, with momentum, dampening, Nesterov's look-ahead and L2 weight decay.

    >>> p = strata.ones(2, requires_grad=True)
    >>> (p * p).sum().backward()
    >>> strata.optim.SGD([p], lr=0.25).step()
    >>> p
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, **switches
    ):
        super().__init__(
            params,
            switches,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
        )


class Adam(Fused):
    """Adam: steps scaled by running means of the gradient and of its square.

    The weight decay is L2, or AdamW's with `decoupled_weight_decay=True`.

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
        **switches,
    ):
        super().__init__(
            params,
            switches,
            lr=lr,
            betas=_fixed(betas),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
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
        **switches,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True, **switches
        )


class NAdam(Fused):
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
        **switches,
    ):
        super().__init__(
            params,
            switches,
            lr=lr,
            betas=_fixed(betas),
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )


class RAdam(Fused):
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
        **switches,
    ):
        super().__init__(
            params,
            switches,
            lr=lr,
            betas=_fixed(betas),
            eps=eps,
            weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )


class Adamax(Fused):
    """Adam with the infinity norm in place of the second moment.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.Adamax([p], lr=0.1)
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *, maximize=False, **switches):
        super().__init__(
            params, switches, lr=lr, betas=_fixed(betas), eps=eps, weight_decay=weight_decay, maximize=maximize
        )


class Adagrad(Fused):
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
        **switches,
    ):
        super().__init__(
            params,
            switches,
            lr=lr,
            lr_decay=lr_decay,
            eps=eps,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            maximize=maximize,
        )


class Adadelta(Fused):
    """Steps as large as recent steps, relative to recent gradients.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.Adadelta([p])
    """

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, *, maximize=False, **switches):
        super().__init__(params, switches, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)


class RMSprop(Fused):
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
        **switches,
    ):
        super().__init__(
            params,
            switches,
            lr=lr,
            momentum=momentum,
            alpha=alpha,
            eps=eps,
            centered=centered,
            weight_decay=weight_decay,
            maximize=maximize,
        )


class ASGD(Fused):
    """Averaged stochastic gradient descent; the average stands in `state[p]["ax"]`.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.ASGD([p], lr=0.1)
    """

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, *, maximize=False, **switches):
        super().__init__(
            params, switches, lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, maximize=maximize
        )


class Rprop(Fused):
    """Resilient propagation: a step size per element that grows while the gradient keeps its sign.

    >>> p = strata.ones(1, requires_grad=True)
    >>> optimizer = strata.optim.Rprop([p], lr=0.1)
    """

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, maximize=False, **switches):
        super().__init__(params, switches, lr=lr, etas=_fixed(etas), step_sizes=_fixed(step_sizes), maximize=maximize)


class Muon(Fused):
    """Momentum whose matrix is made orthogonal before it is followed, for the 2-D parameters of hidden layers.

    `adjust_lr_fn` says how the learning rate follows the shape: "original", "match_rms_adamw" or "spectral_unclamped".

    >>> p = strata.ones(2, 3, requires_grad=True)
    >>> optimizer = strata.optim.Muon([p], lr=0.1)
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=(3.4445, -4.775, 2.0315),
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
    ):
        super().__init__(
            params,
            {},
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=_fixed(ns_coefficients),
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )
