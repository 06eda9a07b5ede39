"""One step of gradient descent with an installed Strata; run by test_package.py in an environment of its own."""

import strata as torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
y = torch.tensor([5.0, 11.0, 17.0])
w = torch.zeros(2, requires_grad=True)


def loss_of(w):
    error = x @ w - y
    return (error * error).mean()


before = loss_of(w)
before.backward()
after = loss_of(w - 0.01 * w.grad)
print(before.item(), after.item())
assert after.item() < before.item()
