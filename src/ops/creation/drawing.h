// Shared by the ops that draw random numbers.
#pragma once
#include <cmath>

#include "record/op.h"
#include "strata/ops/creation/random.h"
#include "strata/ops/pointwise/complex.h"
#include "tensor/generator.h"

namespace strata {

inline Generator& generator_of(const Value& v) {
  return generator_or_default(v.tag == Tag::Generator ? v.generator : nullptr);
}

inline void need_floating(DType t, const char* op) {
  STRATA_CHECK(is_floating(t), Runtime, "{}: expected a floating-point dtype, got {}", op, name_of(t));
}
inline void need_std(double std, const char* op) {
  STRATA_CHECK(std >= 0, Runtime, "{}: expects std >= 0.0, but found std {}", op, std);
}

// Draws both parts of complex numbers; a standard normal number has a variance of 1 in all.
inline void fill_complex(const Tensor& t, std::string_view distribution, double a, double b, Generator* g) {
  random_fill_(view_as_real(t), distribution, a, distribution == "normal" ? b * M_SQRT1_2 : b, g);
}

inline Tensor drawn(const Tensor& fresh, const char* distribution, double a, double b, Generator* g, bool requires_grad,
                    const char* op) {
  if (is_complex(fresh.dtype())) {
    fill_complex(fresh, distribution, a, b, g);
    if (requires_grad) Tensor(fresh).set_requires_grad();
    return fresh;
  }
  need_floating(fresh.dtype(), op);
  Tensor out = random_fill_(fresh, distribution, a, b, g);
  if (requires_grad) out.set_requires_grad();
  return out;
}

}  // namespace strata
