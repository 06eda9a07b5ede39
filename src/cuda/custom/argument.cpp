// Arguments of launches as the bytes of kernel parameters.
#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "cuda/custom/compile.h"

namespace strata::cuda {
namespace {

template <class T> std::string bytes_of(T value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

std::string float_bytes(double value, uint32_t size, const std::string& what) {
  if (size == 8) return bytes_of(value);
  const auto narrow = static_cast<float>(value);
  STRATA_CHECK(std::isfinite(narrow) || !std::isfinite(value), Value, "{}: {} is out of the range of float", what,
               value);
  return bytes_of(narrow);
}

// Signed and unsigned parameters look the same in PTX: any value of either fits.
std::string integer_bytes(int64_t value, uint32_t size, const std::string& what) {
  if (size < 8) {
    const int bits = static_cast<int>(8 * size);
    STRATA_CHECK(value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << bits), Value,
                 "{}: {} does not fit into {} bits", what, value, bits);
  }
  return bytes_of(value).substr(0, size);  // little-endian
}
}  // namespace

Argument::Argument(Tensor t) : kind_(Kind::Tensor), tensor_(std::move(t)) { tensor_.checked(); }

Argument Argument::number(Scalar value) { return {Kind::Number, &value, sizeof value}; }

std::string Argument::describe() const {
  switch (kind_) {
    case Kind::Tensor: return "a tensor";
    case Kind::Integer: return fmt::format("an integer of {} bytes", bytes_.size());
    case Kind::Float: return fmt::format("a float of {} bytes", bytes_.size());
    case Kind::Typed:
    case Kind::Bytes: return fmt::format("a value of {} bytes", bytes_.size());
    case Kind::Address: return "an address";
    case Kind::Number: break;
  }
  return "a number";
}

std::string Argument::bytes_for(const Parameter& p, const std::string& what) const {
  if (kind_ == Kind::Tensor) {
    STRATA_CHECK(p.takes_tensor(), Type, "{}: got a tensor, but the parameter is not a pointer", what);
    return bytes_of(reinterpret_cast<uint64_t>(tensor_->data));
  }
  if (kind_ == Kind::Address) {
    STRATA_CHECK(p.takes_tensor(), Type, "{}: got an address, but the parameter is not a pointer", what);
    return bytes_;
  }
  if (kind_ == Kind::Typed) {
    STRATA_CHECK(bytes_.size() == p.size, Type, "{}: got {}, but the parameter is a {}", what, describe(),
                 p.describe());
    return bytes_;
  }
  STRATA_CHECK(p.takes_number(), Type, "{}: got {}, but the parameter is a pointer; pass a tensor", what, describe());
  if (kind_ == Kind::Number) {
    Scalar s = 0;
    std::memcpy(&s, bytes_.data(), sizeof s);
    STRATA_CHECK(
      p.kind != Parameter::Kind::Bytes, Type,
      "{}: got a number, but the parameter is a struct or a 16-bit float of {} bytes; pass a value of that type", what,
      p.size);
    const bool is_float = s.kind == Scalar::Kind::Float;
    if (p.kind == Parameter::Kind::Float) return float_bytes(is_float ? s.f : static_cast<double>(s.i), p.size, what);
    STRATA_CHECK(!is_float, Type, "{}: got the float {}, but the parameter is an integer", what, s.f);
    return integer_bytes(s.i, p.size, what);
  }
  const bool same_kind = (kind_ == Kind::Integer && p.kind == Parameter::Kind::Integer) ||
                         (kind_ == Kind::Float && p.kind == Parameter::Kind::Float) || p.kind == Parameter::Kind::Bytes;
  STRATA_CHECK(same_kind && bytes_.size() == p.size, Type, "{}: got {}, but the parameter is a {}", what, describe(),
               p.describe());
  return bytes_;
}

}  // namespace strata::cuda
