// Times of small calls from C++, as JSON: medians over many short batches, in microseconds.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/autograd.h"
#include "strata/ops.h"

using namespace strata;

template <class F> static double median_us(F f) {
  constexpr int kBatch = 2000, kBatches = 301;
  std::vector<double> times;
  for (int b = 0; b < kBatches; ++b) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) f();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
                    kBatch);
  }
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

int main() {
  const Tensor a = full({16}, 1.0), b = full({16}, 2.0), row = full({1}, 3.0),
               p = full({16}, 1.0).set_requires_grad(true);
  nlohmann::json rows = nlohmann::json::array();
  const auto report = [&](const char* name, double us) { rows.push_back({{"case", name}, {"strata_us", us}}); };
  report("C++ add(a, b), 16 elements", median_us([&] { add(a, b); }));
  report("C++ add(a, b), recording", median_us([&] { add(p, b); }));
  report("C++ add(a, row), broadcast", median_us([&] { add(a, row); }));
  report("C++ mul(a, 2.0)", median_us([&] { mul(a, 2.0); }));
  report("C++ exp(a)", median_us([&] { exp(a); }));
  report("C++ empty({1000})", median_us([&] { empty({1000}); }));
  report("C++ backward(sum(mul(p, p)))", median_us([&] {
           p->grad = {};
           autograd::backward(sum(mul(p, p)));
         }));
  std::cout << rows.dump(1) << "\n";
}
