"""L-BFGS: the algorithm is in the library, the state is kept here."""

import strata
from strata import _C

from .optimizer import Optimizer, flat_options


class LBFGS(Optimizer):
    """L-BFGS: directions from recent gradients and steps; `step` calls the closure several times.

    `line_search_fn` is None or "strong_wolfe". There is one parameter group only.

    >>> p = strata.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = strata.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((p - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(13., grad_fn=<SumBackward0>)
    >>> p
    tensor([1., 1.], requires_grad=True)
    """

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
        *,
        maximize=False,
    ):
        options = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check_group(self, group):
        if self.param_groups:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        _C._check_options("LBFGS", self._options(group))

    def _options(self, group):
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, found {group['line_search_fn']!r}")
        plain = {name: value for name, value in group.items() if name != "line_search_fn"}
        return flat_options(plain) | {"strong_wolfe": group["line_search_fn"] is not None}

    def step(self, closure):
        """One step; the closure computes the loss and its gradients and is called several times. Its first result is returned."""
        group = self.param_groups[0]
        # One state for all parameters; it is stored with the first, as in PyTorch.
        state = self.state[group["params"][0]]
        with strata.no_grad():
            return _C._lbfgs_step(group["params"], self._options(group), state, closure)
