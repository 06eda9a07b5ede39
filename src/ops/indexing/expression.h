// Python's index expressions, x[1, ::2, None, ..., mask, positions], for reading and assignment.
#pragma once
#include <variant>

#include "record/op.h"

namespace strata {

struct NewAxis {                                                    // None
  operator std::optional<int64_t>() const { return std::nullopt; }  // a bound of a slice that is not given
};
struct Slice {
  std::optional<int64_t> start, stop, step;
  Slice(std::optional<int64_t> from = {}, std::optional<int64_t> to = {}, std::optional<int64_t> by = {})
      : start(from), stop(to), step(by) {}
};
struct Ellipsis {};

// One entry between the brackets. A bool adds a dimension of size 1 (True) or 0 (False).
struct Index : std::variant<int64_t, Slice, NewAxis, Ellipsis, bool, Tensor> {
  using std::variant<int64_t, Slice, NewAxis, Ellipsis, bool, Tensor>::variant;
  Index(int i) : Index(int64_t{i}) {}
  Index(const char* dots) : Index(Ellipsis{}) {  // "..."
    STRATA_CHECK(std::string_view(dots) == "...", Type, "an index that is a text must be \"...\", found \"{}\"", dots);
  }
};

// The names of libtorch: x.index({Slice(1, None), "...", None}).
namespace indexing {
using strata::Ellipsis;
using strata::Slice;
using TensorIndex = Index;
inline constexpr NewAxis None;
}  // namespace indexing

// x[indices]: a view if there are no tensors among the indices, otherwise a copy. Recorded on the tape in both cases.
STRATA_API Tensor get_item(const Tensor& x, std::span<const Index> indices);
// x[indices] = value, which is broadcast and converted to x's dtype.
STRATA_API void set_item(const Tensor& x, std::span<const Index> indices, const Operand& value);

inline Tensor get_item(const Tensor& x, std::initializer_list<Index> indices) {
  return get_item(x, std::span(indices.begin(), indices.size()));
}
inline void set_item(const Tensor& x, std::initializer_list<Index> indices, const Operand& value) {
  set_item(x, std::span(indices.begin(), indices.size()), value);
}

}  // namespace strata
