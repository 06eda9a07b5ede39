"""Shared parts of the tests of optimizers: parameters, steps with given gradients, closures."""

import numpy as np
import strata

ALL = ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "ASGD", "Rprop"]


def parameter(values, dtype=strata.float32):
    return strata.tensor(np.asarray(values).tolist(), dtype=dtype).reshape(np.shape(values)).requires_grad_()


def take_steps(optimizer, params, grads):
    for now in grads:
        for p, g in zip(params, now, strict=True):
            p.grad = None if g is None else strata.tensor(g.tolist(), dtype=p.dtype).reshape(g.shape)
        optimizer.step()


def closure_of(optimizer, loss_of, x):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(x)
        loss.backward()
        return loss

    return closure
