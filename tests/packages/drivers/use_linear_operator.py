"""linear_operator: structured matrices, solves, determinants and gradients."""

import linear_operator
import torch
from linear_operator.operators import DiagLinearOperator, KroneckerProductLinearOperator, ToeplitzLinearOperator

torch.manual_seed(0)
root = torch.randn(6, 6)
matrix = (root @ root.T + 6 * torch.eye(6)).requires_grad_()
operator = linear_operator.to_linear_operator(matrix)
right = torch.randn(6, 2)
assert torch.allclose(operator.solve(right), torch.linalg.solve(matrix, right), atol=1e-3)
quadratic, log_determinant = operator.inv_quad_logdet(right, logdet=True)
assert abs(log_determinant.item() - torch.logdet(matrix).item()) < 1e-2
(quadratic + log_determinant).backward()
assert matrix.grad.shape == (6, 6)
diagonal = DiagLinearOperator(torch.arange(1.0, 5.0))
assert torch.allclose((diagonal + torch.ones(4, 4)).to_dense(), torch.diag(torch.arange(1.0, 5.0)) + 1)
product = KroneckerProductLinearOperator(*(linear_operator.to_linear_operator(torch.randn(2, 2)) for _ in range(2)))
assert product.to_dense().shape == (4, 4) and torch.allclose(product @ torch.eye(4), product.to_dense(), atol=1e-5)
toeplitz = ToeplitzLinearOperator(torch.tensor([3.0, 1.0, 0.5]))
want = torch.tensor([[3.0, 1, 0.5], [1, 3, 1], [0.5, 1, 3]])
assert torch.allclose(toeplitz.to_dense(), want) and torch.allclose(toeplitz @ torch.eye(3), want, atol=1e-5)
assert torch.allclose(operator.cholesky().to_dense() @ operator.cholesky().to_dense().T, matrix, atol=1e-3)
