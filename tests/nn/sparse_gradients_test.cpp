// Sparse gradients of embeddings from C++, beside dense ones.
#include <gtest/gtest.h>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

Tensor table() { return to(arange(15), DType::F64).reshape({5, 3}).div(10).requires_grad_(); }
Tensor rows_of(const Tensor& weight, bool sparse, int64_t k = 1) {
  return nn::functional::embedding(tensor({int64_t{0}, int64_t{3}, k, int64_t{0}}), weight, {}, {}, 2.0, false, sparse);
}

TEST(SparseGradients, EqualDenseOnes) {
  const Tensor dense = table(), sparse = table();
  for (int pass = 0; pass < 2; ++pass) {
    sum(square(rows_of(dense, false))).backward();
    sum(square(rows_of(sparse, true))).backward();
  }
  ASSERT_TRUE(is_sparse(sparse.grad()));
  EXPECT_FALSE(is_sparse(dense.grad()));
  const SparseTensor grad = as_sparse(sparse.grad());
  EXPECT_EQ(grad.nnz(), 8);
  EXPECT_FALSE(grad.is_coalesced());
  EXPECT_TRUE(equal(grad.to_dense(), dense.grad()));
  EXPECT_ERROR(Type, "expected a sparse gradient", as_sparse(dense.grad()));
  sum(sparse).backward();  // a dense gradient makes the sum dense
  EXPECT_FALSE(is_sparse(sparse.grad()));
  EXPECT_TRUE(allclose(sparse.grad(), add(dense.grad(), 1)));
}

template <class Make> Tensor trained(Make make, bool sparse) {
  const Tensor weight = table();
  auto optimizer = make(weight);
  for (int64_t k = 0; k < 4; ++k) {
    optimizer.zero_grad();
    sum(square(rows_of(weight, sparse, k % 3))).backward();
    optimizer.step();
  }
  return autograd::detach(weight);
}

TEST(SparseGradients, StepsOfSgdAndAdagradEqualDenseOnes) {
  const auto plain = [](const Tensor& w) { return optim::SGD({w}, {.lr = 0.05}); };
  const auto momentum = [](const Tensor& w) { return optim::SGD({w}, {.lr = 0.05, .momentum = 0.9, .nesterov = 1}); };
  const auto adagrad = [](const Tensor& w) { return optim::Adagrad({w}, {.lr = 0.05, .lr_decay = 0.1}); };
  EXPECT_TRUE(allclose(trained(plain, true), trained(plain, false), 1e-12));
  EXPECT_TRUE(allclose(trained(momentum, true), trained(momentum, false), 1e-12));
  EXPECT_TRUE(allclose(trained(adagrad, true), trained(adagrad, false), 1e-12));
}

// The first step of Adam moves each element by lr, whatever the size of its gradient.
TEST(SparseGradients, SparseAdamChangesTheRowsOfTheGradient) {
  const Tensor weight = table(), before = clone(autograd::detach(weight));
  optim::SparseAdam optimizer({weight}, {.lr = 0.25, .eps = 1e-12});
  sum(rows_of(weight, true, 3)).backward();
  optimizer.step();
  const Tensor moved = sub(before, autograd::detach(weight));
  for (const int64_t row : {0, 3}) EXPECT_TRUE(allclose(moved[row], full({3}, 0.25, DType::F64)));
  for (const int64_t row : {1, 2, 4}) EXPECT_TRUE(equal(moved[row], zeros({3}, DType::F64)));
  const optim::StateDict saved = optimizer.state_dict();
  optim::SparseAdam other({weight}, {.lr = 0.25});
  other.load_state_dict(saved);
  EXPECT_TRUE(equal(other.state_dict()[1].second, saved[1].second));
}

TEST(SparseGradients, OthersRefuse) {
  const Tensor weight = table();
  sum(rows_of(weight, true)).backward();
  optim::AdamW adam({weight});
  EXPECT_ERROR(Runtime, "AdamW does not support sparse gradients, please consider SparseAdam instead", adam.step());
  optim::SGD decay({weight}, {.lr = 0.1, .weight_decay = 0.1});
  EXPECT_ERROR(Runtime, "weight_decay option is not compatible with sparse gradients", decay.step());
  Tensor(weight).set_grad(ones({5, 3}, DType::F64));
  optim::SparseAdam sparse({weight});
  EXPECT_ERROR(Runtime, "SparseAdam does not support dense gradients", sparse.step());
  EXPECT_ERROR(Value, "must be above 0", optim::SparseAdam({weight}, {.lr = 0}));
}

TEST(SparseGradients, AreSetToZero) {
  const Tensor weight = table();
  sum(rows_of(weight, true)).backward();
  optim::SGD optimizer({weight}, {.lr = 0.1});
  optimizer.zero_grad(false);
  EXPECT_EQ(as_sparse(weight.grad()).nnz(), 0);
}

}  // namespace
}  // namespace strata
