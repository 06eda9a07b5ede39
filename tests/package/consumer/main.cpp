// A user's first program: it only uses the installed package, beside headers of its own that have the names of Strata's.
#include <strata/strata.h>

#include <cstdio>

#include "base/error.h"
#include "tensor/tensor.h"

int main() {
  strata::Tensor w = strata::ones({2, 3});
  w.set_requires_grad(true);
  (w * w).sum().backward();
  std::printf("%g\n", w.grad().sum().item<double>());  // d(w*w)/dw = 2w, summed over six ones: 12
  strata::nn::Sequential net(strata::nn::Linear(3, own_error()), strata::nn::ReLU());
  std::printf("%d\n", static_cast<int>(net(w).dim()) + Tensor().rank);
  try {
    w.sum(7);
  } catch (const strata::Error& e) { std::printf("%s\n", e.what()); }
}
