// A user's first program: it only uses the installed package.
#include <strata/strata.h>

#include <cstdio>

int main() {
  strata::Tensor w = strata::ones({2, 3});
  w.set_requires_grad(true);
  (w * w).sum().backward();
  std::printf("%g\n", w.grad().sum().item<double>());  // d(w*w)/dw = 2w, summed over six ones: 12
}
