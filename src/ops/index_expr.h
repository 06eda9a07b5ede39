// Indexing as Python writes it, x[1, ::2, None, ..., mask, idx], for both languages: views first, then index or index_put.
#pragma once
#include <variant>

#include "record/op.h"

namespace strata {

struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
};
struct NewAxis {};
struct Ellipsis {};

// One item between the brackets.
using Index = std::variant<int64_t, bool, Slice, NewAxis, Ellipsis, Tensor>;

STRATA_API Tensor get_item(const Tensor& t, std::span<const Index> items);
STRATA_API void set_item(const Tensor& t, std::span<const Index> items, Operand value);  // a number or a tensor that broadcasts

// get_item(x, {1, Slice{0, 5, 2}, NewAxis{}, mask}), as Python writes x[1, 0:5:2, None, mask].
inline Tensor get_item(const Tensor& t, std::initializer_list<Index> items) { return get_item(t, std::span(items.begin(), items.size())); }
inline void set_item(const Tensor& t, std::initializer_list<Index> items, Operand value) {
  set_item(t, std::span(items.begin(), items.size()), value);
}

}  // namespace strata
