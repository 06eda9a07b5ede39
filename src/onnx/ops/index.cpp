// Elements by index: gather, scatter, one-hot, compress, unique, nonzero.
#include "base/host_memory.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

// Indices may count from the end; all are checked here, on the host only if that costs nothing.
Tensor positive_indices(const Tensor& indices, int64_t n) {
  const Tensor i = cast(indices, DType::I64);
  return where(lt(i, 0), add(i, n), i);
}
Values gather_of(NodeCall& c) {
  const Value& v = c.value(0);
  const Tensor indices = c.tensor(1);
  if (v.strings) {
    const int64_t axis = axis_of(c.integer("axis", 0), static_cast<int64_t>(v.strings->shape.size()));
    const auto n = static_cast<int64_t>(v.strings->items.size());
    const Tensor places = reshape(arange(n, TensorOptions(DType::I64)), v.strings->shape);
    const Tensor flat = reshape(moved(indices, {}), {indices.numel()});
    const Tensor at = contiguous(index_select(places, axis, positive_indices(flat, places.size(axis))));
    Ints shape = v.strings->shape;
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + axis, indices.shape().begin(), indices.shape().end());
    Strings out{shape, {}};
    for (int64_t i = 0; i < at.numel(); ++i)
      out.items.push_back(v.strings->items[static_cast<size_t>(at.data<int64_t>()[i])]);
    return {Value::of(std::move(out))};
  }
  const Tensor x = c.tensor(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.dim());
  const Tensor flat = positive_indices(reshape(indices, {indices.numel()}), x.size(axis));
  Ints shape = sizes_of(x);
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, indices.shape().begin(), indices.shape().end());
  return one(reshape(index_select(x, axis, flat), shape));
}
Values gather_elements(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.dim());
  return one(gather(x, axis, positive_indices(c.tensor(1), x.size(axis))));
}

// The index tensors of the last dimension of `indices`, for dimensions from `first` on.
std::vector<Tensor> tuple_indices(const Tensor& indices, const Tensor& x, int64_t first) {
  std::vector<Tensor> out;
  const int64_t n = indices.size(-1);
  STRATA_CHECK(n >= 1 && first + n <= x.dim(), Value, "indices of {} dimensions from {} on, the input has {}", n, first,
               x.dim());
  for (int64_t k = 0; k < n; ++k) out.push_back(positive_indices(select(indices, -1, k), x.size(first + k)));
  return out;
}
Values gather_nd(NodeCall& c) {
  const Tensor x = c.tensor(0), indices = c.tensor(1);
  const int64_t batch = c.integer("batch_dims", 0);
  STRATA_CHECK(indices.dim() >= 1 && batch >= 0 && batch < indices.dim() && batch < x.dim(), Value,
               "batch_dims is {} for data {} and indices {}", batch, to_string(x.shape()), to_string(indices.shape()));
  std::vector<Tensor> at = tuple_indices(indices, x, batch);
  const int64_t rest = at[0].dim();
  std::vector<Tensor> all;
  for (int64_t b = 0; b < batch; ++b) {
    STRATA_CHECK(x.size(b) == indices.size(b), Value, "batch dimension {} is {} in data and {} in indices", b,
                 x.size(b), indices.size(b));
    Ints shape(static_cast<size_t>(rest), 1);
    shape[static_cast<size_t>(b)] = x.size(b);
    all.push_back(reshape(arange(x.size(b), device(x.device())), shape));
  }
  all.insert(all.end(), at.begin(), at.end());
  return one(index(x, all));
}

// A way to combine what is scattered: by the op's name of scatter_reduce.
std::string_view reduction_of(const NodeCall& c) {
  const std::string_view r = c.text("reduction", "none");
  if (r == "none") return "";
  if (r == "add") return "sum";
  if (r == "mul") return "prod";
  if (r == "max") return "amax";
  STRATA_CHECK(r == "min", Value, "reduction is '{}'; expected none, add, mul, max or min", r);
  return "amin";
}
Values scatter_elements(NodeCall& c) {
  const Tensor x = c.tensor(0), updates = c.tensor(2);
  const int64_t axis = axis_of(c.integer("axis", 0), x.dim());
  const Tensor at = positive_indices(c.tensor(1), x.size(axis));
  STRATA_CHECK(at->same_shape(*updates), Value, "indices {} and updates {} differ", to_string(at.shape()),
               to_string(updates.shape()));
  const std::string_view reduce = reduction_of(c);
  return one(reduce.empty() ? scatter(x, axis, at, updates) : scatter_reduce(x, axis, at, updates, reduce));
}
Values scatter_nd(NodeCall& c) {
  const Tensor x = c.tensor(0), indices = c.tensor(1), updates = c.tensor(2);
  STRATA_CHECK(indices.dim() >= 1, Value, "indices have no dimension");
  const std::vector<Tensor> at = tuple_indices(indices, x, 0);
  const std::string_view reduce = reduction_of(c);
  if (reduce.empty() || reduce == "sum") return one(index_put(x, at, updates, reduce == "sum"));
  // rows of what the indices choose, as one dimension
  const auto n = static_cast<int64_t>(at.size());
  int64_t rows = 1, columns = 1;
  for (int64_t d = 0; d < x.dim(); ++d) (d < n ? rows : columns) *= x.size(d);
  Tensor row = zeros_like(at[0]);
  for (int64_t k = 0; k < n; ++k) row = add(mul(row, x.size(k)), at[static_cast<size_t>(k)]);
  const int64_t count = row.numel();
  const Tensor place = expand(reshape(row, {count, 1}), {count, columns});
  const Tensor out = scatter_reduce(reshape(x, {rows, columns}), 0, place, reshape(updates, {count, columns}), reduce);
  return one(reshape(out, x.shape()));
}
Values tensor_scatter(NodeCall& c) {
  const Tensor cache = c.tensor(0), update = c.tensor(1);
  const int64_t axis = axis_of(c.integer("axis", -2), cache.dim()), n = update.size(axis), most = cache.size(axis);
  STRATA_CHECK(axis > 0 && update.dim() == cache.dim(), Value, "axis {} of a cache {} and an update {}", axis,
               to_string(cache.shape()), to_string(update.shape()));
  const Ints first = c.has(size_t{2}) ? c.ints(size_t{2}) : Ints(static_cast<size_t>(cache.size(0)), 0);
  STRATA_CHECK(static_cast<int64_t>(first.size()) == cache.size(0), Value, "{} write indices for a batch of {}",
               first.size(), cache.size(0));
  const bool circular = c.text("mode", "linear") == "circular";
  Ints places;
  for (const int64_t f : first)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = circular && most ? (f + i) % most : f + i;
      STRATA_CHECK(at >= 0 && at < most, Index, "write index {} is outside of the cache's {} places", at, most);
      places.push_back(at);
    }
  Ints shape(static_cast<size_t>(cache.dim()), 1);
  shape[0] = cache.size(0);
  shape[static_cast<size_t>(axis)] = n;
  const Tensor at = expand(reshape(moved(host_ints(places), cache.device()), shape), update.shape());
  return one(scatter(cache, axis, at, update));
}

Values one_hot_of(NodeCall& c) {
  const Tensor indices = c.tensor(0), values = c.tensor(2);
  const int64_t depth = static_cast<int64_t>(c.numbers(size_t{1}).at(0));
  STRATA_CHECK(depth > 0 && values.numel() == 2, Value, "depth is {}, and there are {} values; expected 2", depth,
               values.numel());
  check_host_memory((Checked(depth) * indices.numel()).get(), values.element_size(), "OneHot");
  const int64_t axis = axis_of(c.integer("axis", -1), indices.dim() + 1);
  Ints shape(static_cast<size_t>(indices.dim()) + 1, 1);
  shape[static_cast<size_t>(axis)] = depth;
  const Tensor classes = reshape(arange(depth, device(indices.device())), shape);
  const Tensor hot = eq(unsqueeze(positive_indices(indices, depth), axis), classes);
  return one(where(hot, select(reshape(values, {2}), 0, 1), select(reshape(values, {2}), 0, 0)));
}
Values compress(NodeCall& c) {
  Tensor x = c.tensor(0);
  const Ints condition = c.ints(size_t{1});
  const int64_t axis = c.has("axis") ? axis_of(c.integer("axis"), x.dim()) : 0;
  if (!c.has("axis")) x = reshape(x, {x.numel()});
  Ints chosen;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i]) chosen.push_back(static_cast<int64_t>(i));
  STRATA_CHECK(chosen.empty() || chosen.back() < x.size(axis), Index,
               "the condition has {} elements, dimension {} has {}", condition.size(), axis, x.size(axis));
  return one(index_select(x, axis, moved(host_ints(chosen), x.device())));
}
Values nonzero_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  return one(transpose(nonzero(x.dim() ? x : reshape(x, {1})), 0, 1));
}
// The order of first appearance, or sorted; and where each is.
Values unique_of(NodeCall& c) {
  Tensor x = c.tensor(0);
  const bool flat = !c.has("axis");
  if (flat) x = reshape(x, {x.numel()});
  const int64_t axis = flat ? 0 : axis_of(c.integer("axis"), x.dim());
  auto [values, inverse, counts] = unique(x, true, true, true, axis);
  const int64_t n = values.size(axis), total = x.size(axis);
  const Tensor places = arange(total, TensorOptions(DType::I64).device(x.device()));
  Tensor first = scatter_reduce(full({n}, total, like(places)), 0, inverse, places, "amin");
  if (!c.flag("sorted", true)) {
    const Tensor order = argsort(first);
    values = index_select(values, axis, order);
    first = index_select(first, 0, order);
    counts = index_select(counts, 0, order);
    inverse = index_select(argsort(order), 0, inverse);
  }
  return {Value(values), Value(first), Value(inverse), Value(counts)};
}

const OpEntry kIndex[] = {
  {"Gather", 1, 2, 2, nullptr, gather_of},
  {"GatherElements", 11, 2, 2, nullptr, gather_elements},
  {"GatherND", 11, 2, 2, nullptr, gather_nd},
  {"Scatter", 9, 3, 3, nullptr, scatter_elements},
  {"ScatterElements", 11, 3, 3, nullptr, scatter_elements},
  {"ScatterND", 11, 3, 3, nullptr, scatter_nd},
  {"TensorScatter", 24, 2, 3, nullptr, tensor_scatter},
  {"OneHot", 9, 3, 3, nullptr, one_hot_of},
  {"Compress", 9, 2, 2, nullptr, compress},
  {"NonZero", 9, 1, 1, nullptr, nonzero_of},
  {"Unique", 11, 1, 1, nullptr, unique_of},
};
}  // namespace

OpTable index_ops() { return kIndex; }

}  // namespace strata::onnx
