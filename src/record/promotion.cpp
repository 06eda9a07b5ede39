#include "record/promotion.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace strata {
namespace {

// Promotion within one rank; `seen` is set if there was any operand.
struct Rank {
  DType type = DType::Bool;
  bool seen = false;
  void add(DType t) {
    type = seen ? promote(type, t) : t;
    seen = true;
  }
};

Rank combine(Rank higher, Rank lower) {
  // Categories: bool, integer, floating, complex.
  const auto category = [](DType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : t != DType::Bool ? 1 : 0; };
  if (!lower.seen) return higher;
  if (!higher.seen) return lower;
  if (category(lower.type) <= category(higher.type)) return higher;
  // A complex number makes complex64 of a narrow float, complex128 of float64: it does not widen the parts.
  if (is_complex(lower.type) && is_floating(higher.type)) higher.type = complex_type(higher.type);
  else higher.add(lower.type);
  return higher;
}

DType type_of_number(const Value& v) {
  return v.tag == Tag::Float ? default_dtype() : v.tag == Tag::Int ? DType::I64 : DType::Bool;
}

[[gnu::noinline]] DType mixed_type(const Args& args, uint32_t count, uint32_t skip) {
  Rank with_dims, zero_dim, numbers;
  for (uint32_t i = 0; i < count; ++i) {
    const Value& v = args[i];
    if (skip >> i & 1 || !v) continue;
    if (v.is_number()) {
      numbers.add(type_of_number(v));
    } else if (v.tag == Tag::Tensor) {
      const TensorImpl& t = *v.tensor;
      if (t.wrapped_number)
        numbers.add(is_complex(t.dtype)    ? complex_type(default_dtype())
                    : is_floating(t.dtype) ? default_dtype()
                                           : t.dtype);
      else (t.ndim ? with_dims : zero_dim).add(t.dtype);
    }
  }
  return combine(combine(with_dims, zero_dim), numbers).type;
}

[[noreturn, gnu::cold]] void refuse(const Args& args, uint32_t count, const char* op) {
  std::string shapes;
  uint32_t left = 0;
  for (uint32_t i = 0; i < count; ++i) left += args.is_tensor(i);
  for (uint32_t i = 0; i < count; ++i) {
    if (!args.is_tensor(i)) continue;
    shapes += to_string(args.tensor(i).sizes());
    shapes += --left == 0 ? "" : left == 1 ? " and " : ", ";
  }
  fail(ErrorKind::Runtime,
       fmt::format("{}: shapes {} do not broadcast; sizes must be equal or 1, counted from the last dimension", op,
                   shapes));
}
}  // namespace

DType result_type(const Args& args, uint32_t count, uint32_t skip) {
  // The common case first: tensors of one dtype, numbers of no higher category.
  DType type = DType::Bool;
  bool seen = false;
  for (uint32_t i = 0; i < count; ++i) {
    const Value& v = args[i];
    if (skip >> i & 1) continue;
    if (v.tag == Tag::Tensor) {
      if ((seen && v.tensor->dtype != type) || v.tensor->wrapped_number) return mixed_type(args, count, skip);
      type = v.tensor->dtype;
      seen = true;
    }
  }
  if (seen && is_differentiable(type)) return type;
  return mixed_type(args, count, skip);
}

bool broadcast_into(int64_t* shape, int* ndim, Shape other) {
  const int n = static_cast<int>(other.size());
  if (n > *ndim) {  // make room for leading dimensions
    std::copy_backward(shape, shape + *ndim, shape + n);
    std::fill_n(shape, n - *ndim, 1);
    *ndim = n;
  }
  int64_t* tail = shape + (*ndim - n);
  for (int d = 0; d < n; ++d) {
    if (tail[d] == other[d] || other[d] == 1) continue;
    if (tail[d] != 1) return false;
    tail[d] = other[d];
  }
  return true;
}

void broadcast_shape(const Args& args, uint32_t count, TensorImpl& out, const char* op) {
  int ndim = 0;
  bool first = true;
  for (uint32_t i = 0; i < count; ++i) {
    if (!args.is_tensor(i)) continue;
    const TensorImpl& t = args.tensor(i);
    out.reserve_dims(t.ndim);
    if (first) {
      ndim = t.ndim;
      first = false;
      for (int d = 0; d < ndim; ++d) out.shape[d] = t.shape[d];
    } else if (!broadcast_into(out.shape, &ndim, t.sizes())) {
      refuse(args, count, op);
    }
  }
  out.ndim = static_cast<uint8_t>(ndim);
}

namespace {
bool holds(DType t, Scalar s, bool fill) {
  if (s.is_complex()) {
    if (s.z.im != 0 && !is_complex(t)) return false;
    return holds(real_type(t), s.z.re, fill) && (s.z.im == 0 || holds(real_type(t), s.z.im, fill));
  }
  if (is_complex(t)) return holds(real_type(t), s, fill);
  const double v = s.to_double(), most = info_of(t).largest;
  if (t == DType::Bool || (fill && (t == DType::F16 || t == DType::BF16))) return true;
  if (is_floating(t)) return std::isnan(v) || (std::isinf(v) && t != DType::F8E4M3) || std::abs(v) <= most;
  const bool wide = size_of(t) == 8;  // `most` is then a power of two, one beyond the largest value
  if (s.kind != Scalar::Kind::Float && t == DType::I64) return true;
  if (s.kind != Scalar::Kind::Float) return v <= most && v >= (is_signed(t) ? -most - 1 : -most);
  return (wide ? v < most : v <= most) && v >= (is_signed(t) ? (wide ? -most : -most - 1) : 0);
}
}  // namespace

void check_in_range(Scalar s, DType t, const char* op, bool fill) {
  if (holds(t, s, fill)) [[likely]]
    return;
  fail(ErrorKind::Runtime, fmt::format("{}: value {} cannot be converted to type {} without overflow", op,
                                       s.is_complex() ? fmt::format("({}{:+}j)", s.z.re, s.z.im)
                                       : s.is_float() ? fmt::format("{}", s.f)
                                                      : fmt::format("{}", s.i),
                                       name_of(t)));
}

void check_in_range(int64_t low, int64_t high, DType t, const char* op) {
  const double most = info_of(t).largest, least = is_floating(t) ? -most : is_signed(t) ? -most - 1 : 0;
  STRATA_CHECK(t == DType::I64 || static_cast<double>(low) >= least, Runtime, "{}: from = {} is out of bounds for {}",
               op, low, name_of(t));
  STRATA_CHECK(t == DType::I64 || static_cast<double>(high - 1) <= most, Runtime,
               "{}: to - 1 = {} is out of bounds for {}", op, high - 1, name_of(t));
}

}  // namespace strata
