// Launches the kernel of cuda/order/group.cu.
#include "cuda/order/group.h"

#include <array>

#include "cuda/movement/dense.h"
#include "cuda/order/look_back.h"
#include "cuda/order/sort_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

Groups group_neighbours(const Tensor& x, bool given, const Tensor& order, bool inverse) {
  static const Function kernel("group", "group_neighbours");
  constexpr int64_t kThreads = 256, kTile = 4096;
  const auto numbers = [&](int64_t n) { return make_tensor(Shape(std::array{n}), DType::I64, x.device()); };
  const int64_t n = x.numel();
  if (n == 0) return {numbers(0), inverse ? numbers(0) : Tensor()};
  const Tensor values = dense(*x), at = order ? dense(*order) : Tensor(), first = numbers(n), count = numbers(1);
  Groups groups{{}, inverse ? numbers(n) : Tensor()};
  const LookBack memory(ceil_div(n, kTile), x.device());
  GroupParams p{};
  (given ? p.begins : p.x) = address(*values);
  p.type = tag(*x);
  p.order = address(at.get());
  p.first = address(*first);
  p.inverse = address(groups.inverse.get());
  p.groups = address(*count);
  p.words = memory.words();
  p.ticket = memory.ticket();
  p.n = n;
  stream_of(x.device()).launch(kernel, {blocks_for(n, kTile)}, {kThreads}, 0, p);
  const int64_t found = count.item<int64_t>();
  groups.first = numbers(found);
  const Tensor begin = alias(*first);
  begin->set_shape(groups.first.shape());
  copy(*groups.first, *begin);
  return groups;
}

}  // namespace strata::cuda
