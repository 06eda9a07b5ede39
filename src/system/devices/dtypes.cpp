// The table of element types: every number is computed, from all codes of a type where there are few.
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "system/devices/devices.h"
#include "tensor/dtype.h"

namespace strata::devices {
namespace {

int bits_of(double v) { return static_cast<int>(std::lround(std::log2(v))); }

// From the numbers that a type has: `values` are those of all codes, or enough of them, in any order.
void from_values(TypeFacts& t, const std::vector<double>& values) {
  double next = std::numeric_limits<double>::infinity(), least = next;
  for (const double v : values) {
    if (!std::isfinite(v) || v <= 0) continue;
    t.largest = std::max(t.largest, v);
    least = std::min(least, v);
    if (v > 1) next = std::min(next, v);
  }
  t.epsilon = next - 1;
  t.mantissa_bits = -bits_of(t.epsilon);
  t.smallest_subnormal = least;
  t.smallest = least / t.epsilon;
  t.exponent_bits = t.bits - 1 - t.mantissa_bits;
}

template <class T, class Code> std::vector<double> all_values() {
  std::vector<double> values;
  for (uint32_t code = 0; code < (uint32_t{1} << (8 * sizeof(Code))); ++code)
    values.push_back(static_cast<double>(static_cast<float>(std::bit_cast<T>(static_cast<Code>(code)))));
  return values;
}

template <class T> TypeFacts facts_of(const char* name, const char* use) {
  TypeFacts t;
  t.name = name;
  t.use = use;
  t.bits = 8 * static_cast<int>(sizeof(T));
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    using L = std::numeric_limits<T>;
    t.largest = L::max();
    t.smallest = L::min();
    t.smallest_subnormal = L::denorm_min();
    t.epsilon = L::epsilon();
    t.mantissa_bits = L::digits - 1;
    t.exponent_bits = t.bits - L::digits;
  } else if constexpr (std::is_integral_v<T>) {
    t.largest = static_cast<double>(std::numeric_limits<T>::max());
    t.smallest = static_cast<double>(std::numeric_limits<T>::min());
    t.digits = std::log10(t.largest);
  } else if constexpr (sizeof(T) == 1) {
    from_values(t, all_values<T, uint8_t>());
  } else {
    from_values(t, all_values<T, uint16_t>());
  }
  if (t.mantissa_bits) t.digits = (t.mantissa_bits + 1) * std::log10(2.0);
  return t;
}

// What products of float32 round their factors to on tensor cores: float32 without its last 13 bits.
TypeFacts tf32() {
  TypeFacts t;
  t.name = "tf32";
  t.use = "products of float32 on tensor cores, where it is allowed; not a dtype of tensors";
  t.bits = 19;
  std::vector<double> values;
  for (uint32_t code = 0; code < (uint32_t{1} << 19); ++code)
    values.push_back(static_cast<double>(std::bit_cast<float>(code << 13)));
  from_values(t, values);
  t.digits = (t.mantissa_bits + 1) * std::log10(2.0);
  return t;
}

std::string number(double v) { return v == 0 ? "" : fmt::format("{:.4g}", v); }

}  // namespace

std::vector<TypeFacts> dtypes() {
  return {facts_of<double>("float64", "references, solvers, where float32 is not enough"),
          facts_of<float>("float32", "the default: parameters, sums, losses"),
          tf32(),
          facts_of<BFloat16>("bfloat16", "training: the range of float32, little precision"),
          facts_of<Half>("float16", "training with scaled gradients, inference"),
          facts_of<Float8E4M3>("float8_e4m3fn", "products forward, with scales"),
          facts_of<Float8E5M2>("float8_e5m2", "gradients, with scales"),
          facts_of<int64_t>("int64", "indices, class numbers"),
          facts_of<int32_t>("int32", "indices, sums of int8 products"),
          facts_of<int16_t>("int16", "samples of sound"),
          facts_of<int8_t>("int8", "quantized inference"),
          facts_of<uint64_t>("uint64", "hashes, counters"),
          facts_of<uint32_t>("uint32", "hashes, counters"),
          facts_of<uint16_t>("uint16", "images of 16 bits"),
          facts_of<uint8_t>("uint8", "images, bytes")};
}

std::string to_text(const std::vector<TypeFacts>& all) {
  std::string text =
    fmt::format("{:<14} {:>4} {:>8} {:>8} {:>11} {:>11} {:>11} {:>10} {:>6}  {}\n", "type", "bits", "exponent",
                "mantissa", "largest", "smallest", "subnormal", "epsilon", "digits", "for");
  for (const TypeFacts& t : all)
    text += fmt::format("{:<14} {:>4} {:>8} {:>8} {:>11} {:>11} {:>11} {:>10} {:>6.1f}  {}\n", t.name, t.bits,
                        t.exponent_bits ? std::to_string(t.exponent_bits) : "",
                        t.mantissa_bits ? std::to_string(t.mantissa_bits) : "", number(t.largest),
                        t.mantissa_bits ? number(t.smallest) : fmt::format("{:.4g}", t.smallest),
                        number(t.smallest_subnormal), number(t.epsilon), t.digits, t.use);
  return text;
}

std::string to_json(const std::vector<TypeFacts>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const TypeFacts& t : all)
    list.push_back({{"name", t.name},
                    {"bits", t.bits},
                    {"exponent_bits", t.exponent_bits},
                    {"mantissa_bits", t.mantissa_bits},
                    {"largest", t.largest},
                    {"smallest", t.smallest},
                    {"smallest_subnormal", t.smallest_subnormal},
                    {"epsilon", t.epsilon},
                    {"digits", t.digits},
                    {"use", t.use}});
  return list.dump(2) + "\n";
}

}  // namespace strata::devices
