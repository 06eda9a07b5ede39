// The types of module arguments: lists that may be given as one number, and how they are printed.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace strata::nn {

namespace detail {
[[noreturn]] STRATA_API void fail_count(size_t expected, size_t found);
}

// N integers; a single one is repeated N times.
template <size_t n> struct Ints : std::array<int64_t, n> {
  Ints(std::integral auto one) { this->fill(static_cast<int64_t>(one)); }
  Ints(std::initializer_list<int64_t> list) { assign(list.begin(), list.size()); }
  Ints(const std::vector<int64_t>& list) { assign(list.data(), list.size()); }
  operator IntList() const { return Shape(this->data(), n); }
  operator OptIntList() const { return Shape(this->data(), n); }

 private:
  void assign(const int64_t* values, size_t count) {
    if (count == 1) this->fill(*values);
    else if (count == n) std::copy_n(values, n, this->begin());
    else detail::fail_count(n, count);
  }
};

// One value or several, kept as given; or none.
template <class T> struct ListArg {
  std::vector<T> values;
  bool given = false, single = false;

  ListArg() = default;
  template <class U>
  requires std::convertible_to<U, T> ListArg(U one) : values{static_cast<T>(one)}, given(true), single(true) {}
  ListArg(std::nullopt_t) requires(!std::convertible_to<std::nullopt_t, T>) {}
  ListArg(std::initializer_list<T> list) : values(list), given(true) {}
  ListArg(std::vector<T> list) : values(std::move(list)), given(true) {}
  template <size_t n> ListArg(const Ints<n>& list) : values(list.begin(), list.end()), given(true) {}
  operator IntList() const requires std::same_as<T, int64_t> { return values; }
  operator OptIntList() const requires std::same_as<T, int64_t> { return given ? OptIntList(values) : OptIntList(); }
  operator std::optional<std::span<const double>>() const requires std::same_as<T, double> {
    return given ? std::optional<std::span<const double>>(values) : std::nullopt;
  }
};
using SizeArg = ListArg<int64_t>;
using FloatArg = ListArg<double>;
using KeepArg = ListArg<std::optional<int64_t>>;  // output sizes; nullopt keeps the input's

// Padding of a convolution: amounts, or "same" or "valid".
template <size_t n> struct Padding {
  Ints<n> amounts = 0;
  std::string word;  // empty: use the amounts

  Padding(std::integral auto one) : amounts(one) {}
  Padding(std::initializer_list<int64_t> list) : amounts(list) {}
  Padding(const std::vector<int64_t>& list) : amounts(list) {}
  Padding(const Ints<n>& list) : amounts(list) {}
  Padding(const char* text) : word(text) {}
  Padding(std::string text) : word(std::move(text)) {}
};

// Functions of the expressions in module records. Python has the same in strata/nn/_support.py.
namespace detail {

inline int64_t prod(IntList list) {
  int64_t p = 1;
  for (int64_t v : list) p *= v;
  return p;
}
inline bool any_but(int64_t value, IntList list) {
  for (int64_t v : list)
    if (v != value) return true;
  return false;
}
template <size_t n> bool any_but(int64_t value, const Padding<n>& p) {
  return !p.word.empty() || any_but(value, p.amounts);
}

inline void append(std::vector<int64_t>& out, int64_t one) { out.push_back(one); }
inline void append(std::vector<int64_t>& out, IntList list) { out.insert(out.end(), list.begin(), list.end()); }
template <class... T> std::vector<int64_t> shape_of(const T&... parts) {
  std::vector<int64_t> out;
  (append(out, parts), ...);
  return out;
}

// Arguments of pad() that replace the padding of a convolution: pairs, last dimension first.
STRATA_API std::vector<int64_t> padding_sides(IntList amounts, std::string_view word, IntList kernel_size,
                                              IntList dilation);
template <size_t n>
std::vector<int64_t> padding_sides(const Padding<n>& p, const Ints<n>& kernel_size, const Ints<n>& dilation) {
  return padding_sides(p.amounts, p.word, kernel_size, dilation);
}
// Strings other than "same" and "valid", and "same" with a stride, are invalid.
template <size_t n> bool valid_padding(const Padding<n>& p, const Ints<n>& stride) {
  return p.word.empty() || p.word == "valid" || (p.word == "same" && !any_but(1, stride));
}
// The bound of PyTorch's uniform biases; 0 without inputs.
STRATA_API double conv_bound(int64_t fan_in);
// A padding index counted from the front; throws if it is out of range.
STRATA_API std::optional<int64_t> wrapped_index(std::optional<int64_t> index, int64_t count);
STRATA_API void zero_row(const Tensor& weight, std::optional<int64_t> row);
// Valid numbers of dimensions for a batch norm over `spatial` dimensions.
inline std::vector<int64_t> batch_norm_ranks(int64_t spatial) {
  return spatial == 1 ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{spatial + 2};
}
// The output padding with which a transposed convolution gives output_size.
STRATA_API std::vector<int64_t> fitting_output_padding(const Tensor& input, IntList output_size, IntList stride,
                                                       IntList padding, IntList kernel_size, IntList dilation);
// Converts the value of an attribute's expression to the attribute's type.
template <class T, class U> T convert(const U& value) {
  if constexpr (requires { value.values; } && !std::convertible_to<U, T>) return T(value.values);
  else return value;
}
STRATA_API std::vector<int64_t> keep_sizes(const Tensor& input, const KeepArg& sizes, int64_t dims);

// As Python's str() shows it.
STRATA_API std::string show(double v);
STRATA_API std::string show(IntList list);  // a tuple: (1, 2)
STRATA_API std::string show(const SizeArg& list);
STRATA_API std::string show(const FloatArg& list);
STRATA_API std::string show(const KeepArg& list);
inline std::string show(bool v) { return v ? "True" : "False"; }
inline std::string show(int64_t v) { return std::to_string(v); }
inline std::string show(const std::string& s) { return s; }
template <size_t n> std::string show(const Ints<n>& list) { return show(IntList(list)); }
template <size_t n> std::string show(const Padding<n>& p) { return p.word.empty() ? show(p.amounts) : p.word; }
template <class T> std::string show(const std::optional<T>& v) { return v ? show(*v) : "None"; }

inline bool is_none(const Tensor& t) { return !t; }
inline bool is_none(const OptIntList& l) { return !l.given; }
template <class T> bool is_none(const std::optional<T>& v) { return !v; }
template <class T> bool is_none(const ListArg<T>& v) { return !v.given; }

}  // namespace detail
}  // namespace strata::nn
