// Indexing by tensors: index, index_put and the two core ops that implement all forms of it.
#include "strata/args/indexing/indexing.h"
#include "strata/ops/indexing/indexing.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "cpu/indexing/indexing.h"
#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "cuda/indexing/indexing.h"
#include "ops/indexing/indexing.h"
#include "ops/layout.h"
#include "ops/transfer.h"
#include "record/precision.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/strided.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {

Dims indexed_shape(const TensorImpl& input, TensorList indices, int64_t first) {
  STRATA_CHECK(!indices.empty() && first >= 0 && first <= input.ndim - static_cast<int64_t>(indices.size()), Index,
               "index: {} index tensors from dimension {} on do not fit a tensor of shape {}", indices.size(), first,
               to_string(input.sizes()));
  for (const Tensor& t : indices)
    STRATA_CHECK(t && t.dtype() == DType::I64 && t->same_shape(*indices[0]), Index,
                 "index: expected int64 index tensors of one shape");
  Dims shape;
  for (int64_t d = 0; d < first; ++d) shape.push(input.shape[d]);
  for (int64_t n : indices[0].shape()) shape.push(n);
  for (size_t d = static_cast<size_t>(first) + indices.size(); d < input.ndim; ++d) shape.push(input.shape[d]);
  return shape;
}

template <class V> cpu::IndexedDims indexed(const V& a) {
  return cpu::IndexedDims(a.input(), static_cast<int>(a.first()), a.indices(), true, "index");
}

void infer_put(const Call& c) {
  const args::index_put_at a(c);
  const TensorImpl &input = a.input(), &values = a.values();
  TensorImpl& out = *c.outs[0];
  out.dtype = input.dtype;
  out.device = input.device;
  out.set_shape(input.sizes());
  set_layout(out, std::nullopt, &input, "index_put");
  const Dims shape = indexed_shape(input, a.indices(), a.first());
  STRATA_CHECK(
    values.dtype == input.dtype, Runtime,
    "index_put: requires the source and destination dtypes match, got {} for the destination and {} for the source",
    name_of(input.dtype), name_of(values.dtype));
  const int lead = static_cast<int>(shape.n) - values.ndim;
  bool fits = lead >= 0;
  for (int d = 0; fits && d < values.ndim; ++d) fits = values.shape[d] == 1 || values.shape[d] == shape.at[d + lead];
  STRATA_CHECK(fits, Runtime,
               "index_put: shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
               to_string(values.sizes()), to_string(shape));
}

// The values in the form of the kernels: one element, or contiguous in the full shape, not overlapping the written
// memory. `memory(shape, dtype)` returns a tensor for a copy; if it has no memory, nothing is copied.
template <class Memory> Tensor values_to_put(const Call& c, Memory memory) {
  const args::index_put_at a(c);
  const TensorImpl &input = a.input(), &values = a.values(), &out = *c.out();
  const bool in_place = out.data == input.data;
  const Dims shape = indexed_shape(input, a.indices(), a.first());
  Tensor source = alias(values);
  const bool full = std::ranges::equal(values.sizes(), Shape(shape)) && values.contiguous;
  if ((values.numel != 1 && !full) || (in_place && values.storage.get() == out.storage.get())) {
    source = memory(values.numel == 1 ? Shape() : Shape(shape), values.dtype);
    if (source.bytes()) copy_values(*source, values);
  }
  return source;
}
void run_put(const Call& c) {
  const args::index_put_at a(c);
  const TensorImpl &input = a.input(), &out = *c.out();
  const cpu::IndexedDims at(out, static_cast<int>(a.first()), a.indices(), true, "index_put");
  const Tensor source = values_to_put(c, [](Shape shape, DType dtype) { return make_tensor(shape, dtype); });
  if (out.data != input.data) cpu::copy(out, input);
  cpu::put_rows(out, *source, at, a.accumulate());
}
template <bool any_order> void put_on_device(const Call& c, Workspace& workspace) {
  const args::index_put_at a(c);
  const TensorImpl &input = a.input(), &out = *c.out();
  const Tensor source = values_to_put(c, [&](Shape shape, DType dtype) { return workspace.take(shape, dtype); });
  if (!workspace.planning() && out.data != input.data) copy_values(out, input);
  cuda::put_rows(out, *source, static_cast<int>(a.first()), a.indices(), a.accumulate(), any_order, workspace);
}
const char* why_not_put_in_any_order(const Call& c) {
  const args::index_put_at a(c);
  if (is_deterministic()) return kWhyNotInAnyOrder;
  return a.accumulate() && !cuda::adds_in_any_order(a.input().dtype) ? "only float32 and float64 are added by atomics"
                                                                     : nullptr;
}

// The index in the input of element `at` of input[:, …, indices…].
cpu::Index place_of(const cpu::Index& at, const TensorImpl& input, TensorList indices, int64_t first) {
  const auto dims = static_cast<int64_t>(indices[0].dim()), count = static_cast<int64_t>(indices.size());
  cpu::Index index{}, place{};
  for (int64_t d = 0; d < dims; ++d) index[static_cast<size_t>(d)] = at[static_cast<size_t>(first + d)];
  for (int64_t d = 0; d < input.ndim; ++d) {
    int64_t& to = place[static_cast<size_t>(d)];
    if (d < first) to = at[static_cast<size_t>(d)];
    else if (d >= first + count) to = at[static_cast<size_t>(d - count + dims)];
    else if (to = cpu::get<int64_t>(*indices[static_cast<size_t>(d - first)], index); to < 0) to += input.shape[d];
  }
  return place;
}
void plain_take(const Call& c) {
  const args::index_at a(c);
  const TensorImpl& input = a.input();
  indexed(a);  // checks the indices
  cpu::each_index(c.out().shape(), [&](const cpu::Index& at) {
    cpu::put(*c.out(), at, input, place_of(at, input, a.indices(), a.first()));
  });
}
template <class T> T plus(T a, T b) {
  if constexpr (kIsComplex<T>) return {a.re + b.re, a.im + b.im};
  else return a + b;
}
void plain_put(const Call& c) {
  const args::index_put_at a(c);
  const TensorImpl &input = a.input(), &values = a.values(), &out = *c.out();
  indexed(a);
  const TensorList indices = a.indices();
  const Dims shape = indexed_shape(input, indices, a.first());
  if (out.data != input.data) cpu::copy_reference(out, input);
  const auto put = [&]<class T>() {
    cpu::each_index(shape, [&](const cpu::Index& at) {
      cpu::Index source{};
      for (int d = values.ndim, s = static_cast<int>(shape.n); d-- > 0 && s-- > 0;)
        source[static_cast<size_t>(d)] = values.shape[d] == 1 ? 0 : at[static_cast<size_t>(s)];
      const cpu::Index place = place_of(at, input, indices, a.first());
      T value = cpu::get<T>(values, source);
      if (a.accumulate()) value = plus(cpu::get<T>(out, place), value);
      cpu::set<T>(out, place, value);
    });
  };
  if (is_complex(out.dtype)) put.operator()<Complex<double>>();
  else cpu::dispatch_wide(out.dtype, put);
}
}  // namespace

void check_positions(const Tensor& index, int64_t size, bool wrap, int dim, const char* op) {
  if (index.is_meta()) return;
  if (index.device().type != DeviceType::Cpu) return cuda::check_indices(*index, size, wrap);
  for (int64_t i = 0; i < index.numel(); ++i) {
    const int64_t v = index.data<int64_t>()[i];
    STRATA_CHECK(v >= (wrap ? -size : 0) && v < size, Index,
                 "{}: index {} is out of range for dimension {} with size {}", op, v, dim, size);
  }
}

Tensor index_tensor(const std::vector<int64_t>& values) {
  Tensor t = make_tensor(Shape(std::array{static_cast<int64_t>(values.size())}), DType::I64);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return placed(t);
}

Tensor as_index(const Tensor& index, const char* op) {
  STRATA_CHECK(index.dtype() == DType::I64 || index.dtype() == DType::I32, Index,
               "{}: expected an index of dtype int64 or int32, got {}", op, name_of(index.dtype()));
  return contiguous(to(index, DType::I64));
}

Tensor positions_of(const Tensor& mask) { return select(nonzero(reshape(mask, -1)), 1, 0); }

// The positions of a meta mask, for a write: as many as the values or the other indices have. Index dimensions are
// followed by those of input that have no index, or by all of them if there is a gap.
static Tensor assumed_positions(const Tensor& input, std::span<const Tensor> given, const Tensor& mask,
                                const Tensor& values, const char* op) {
  if (!values) refuse_shape_from_values(op);
  // `after`: dimensions without an index, after the last index
  int64_t count = 1, unnamed = input.dim(), without = 0, after = 0;
  bool begun = false, gap = false;
  for (const Tensor& t : given) {
    const bool covers = t && (t.dtype() == DType::Bool || t.dtype() == DType::U8);
    unnamed -= covers ? t.dim() : 1;
    if (!t) {
      ++without;
      ++after;
      continue;
    }
    gap |= begun && after > 0;
    begun = true;
    after = 0;
    if (!covers && t.dim() > 0) count = std::max(count, t.size(-1));
  }
  const int64_t at = values.dim() - 1 - unnamed - (gap ? without : after);
  if (count == 1 && at >= 0) count = values->shape[at];
  return empty({count, int64_t{mask.dim()}}, DType::I64, mask.device());
}

IndexPlan plan_index(const Tensor& input, std::span<const Tensor> given, const char* op, const Tensor& values) {
  // Masks become one index tensor per dimension they cover.
  std::vector<Tensor> by_dim;
  for (const Tensor& t : given) {
    if (!t) {
      by_dim.emplace_back();
    } else if (t.dtype() == DType::Bool || t.dtype() == DType::U8) {
      for (int d = 0; d < t.dim(); ++d) {
        const size_t at = by_dim.size() + static_cast<size_t>(d);
        STRATA_CHECK(
          at < static_cast<size_t>(input.dim()) && t->shape[d] == input->shape[at], Index,
          "{}: the shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}", op,
          to_string(t.shape()), d, to_string(input.shape()), at);
      }
      STRATA_CHECK(t.dim() > 0, Index, "{}: a zero-dimensional mask needs a dimension of its own", op);
      const Tensor found = t.is_meta() ? assumed_positions(input, given, t, values, op) : nonzero(t);
      for (int d = 0; d < t.dim(); ++d) by_dim.push_back(select(found, 1, d));
    } else {
      STRATA_CHECK(t.dtype() == DType::I64 || t.dtype() == DType::I32, Index,
                   "{}: tensors used as indices must be long, int, byte or bool tensors, got {}", op,
                   name_of(t.dtype()));
      by_dim.push_back(t);
    }
  }
  STRATA_CHECK(by_dim.size() <= static_cast<size_t>(input.dim()), Index,
               "{}: too many indices for tensor of dimension {} (got {})", op, input.dim(), by_dim.size());

  Dims shape;
  IndexPlan plan{input, {}, -1};
  Dims order, rest;
  bool gap = false, ended = false;
  for (size_t d = 0; d < static_cast<size_t>(input.dim()); ++d) {
    if (d >= by_dim.size() || !by_dim[d]) {
      rest.push(static_cast<int64_t>(d));
      ended = plan.first >= 0;
      continue;
    }
    gap |= ended;
    if (plan.first < 0) plan.first = static_cast<int64_t>(d);
    order.push(static_cast<int64_t>(d));
    const Shape s = by_dim[d].shape();
    for (size_t k = 0; k < std::min(shape.n, s.size()); ++k) {
      const int64_t a = shape[shape.n - 1 - k], b = s[s.size() - 1 - k];
      STRATA_CHECK(a == b || a == 1 || b == 1, Index,
                   "{}: shape mismatch: indexing tensors could not be broadcast together with shapes {} and {}", op,
                   to_string(shape), to_string(s));
    }
    shape = broadcast_shapes(shape, s, op);
    plan.indices.push_back(by_dim[d]);
  }
  for (Tensor& t : plan.indices) {
    if (t.device().type == DeviceType::Cpu) t = to(t, std::optional(input.device()));  // indices may be on the host
    t = contiguous(to(expand(t, shape), DType::I64));
  }
  plan.first = std::max<int64_t>(plan.first, 0);
  if (gap) {  // the index dimensions come first in the result
    for (size_t d = 0; d < rest.n; ++d) order.push(rest[d]);
    plan.input = permute(input, order);
    plan.first = 0;
  }
  return plan;
}

STRATA_OP(index_at, "index_at(Tensor input, Tensor[] indices, int first) -> Tensor")
  .doc(
    "input[:, …, indices…]: contiguous int64 index tensors of one shape for adjacent dimensions starting at `first`.")
  .infer([](const args::index_at& c) {
    const TensorImpl& input = c.input();
    c.out()->dtype = input.dtype;
    c.out()->device = input.device;
    c.out()->set_shape(indexed_shape(input, c.indices(), c.first()));
  })
  .kernel("rows", [](const args::index_at& c) { cpu::take_rows(*c.out(), c.input(), indexed(c)); })
  .kernel("reference", plain_take)
  .cuda("rows",
        [](const args::index_at& c, Workspace& workspace) {
          cuda::take_rows(*c.out(), c.input(), static_cast<int>(c.first()), c.indices(), workspace);
        })
  .grad([](const grads::index_at& c, const Tensor& g) -> Grads {
    return {index_put_at_(autograd::zeros_for(c.meta_of_input()), c.indices(), g, true, c.first())};
  })
  .saves({"indices"})
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), [i5(4)], 0", "f(2,5,3), [i5(2,2)], 1", "f(4,5,3), [i4(3), i4(3)], 0", "f(5), [i5(0)], 0",
            "f(5), [i5()], 0"})
  .error("f(2), [i9(200)], 0", ErrorKind::Index, "out of range for dimension 0 with size 2")
  .error("f(2), [i2(2)], 9223372036854775807", ErrorKind::Index, "do not fit a tensor");

STRATA_OP(index_put_at,
          "index_put_at(Tensor input, Tensor[] indices, Tensor values, bool accumulate, int first) -> Tensor")
  .doc("A copy of input with values written, or added, at the positions that index_at reads; later ones win.")
  .infer(infer_put)
  .kernel("rows", run_put)
  .kernel("reference", plain_put)
  .cuda("any_order", put_on_device<true>, why_not_put_in_any_order)
  .numerics({.deterministic = false})
  .cuda("rows", put_on_device<false>)
  .grad([](const grads::index_put_at& c, const Tensor& g) -> Grads {
    const std::vector<Tensor> indices = c.indices();
    const int64_t first = c.first();
    grads::index_put_at::Result out;
    if (c.needs_input()) out.input = c.accumulate() ? g : index_put_at(g, indices, zeros({}, g.dtype()), false, first);
    if (c.needs_values()) out.values = index_at(g, indices, first);
    return out;
  })
  .saves({"indices"})
  .helper()
  .updates()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), [i5(4)], f(4,3), True, 0", "f(5,3), [i5(4)], f(3), True, 0", "f(2,5,3), [i5(2)], f(), True, 1",
            "f(4,5), [i4(3), i4(3)], f(3), True, 0"})
  .error("f(5,3), [i5(4)], f(2), False, 0", ErrorKind::Runtime, "cannot be broadcast")
  .error("f(5,3), [i5(4)], f(2), False, 9223372036854775807", ErrorKind::Index, "do not fit a tensor");

STRATA_OP(index, "index(Tensor input, Tensor?[] indices) -> Tensor")
  .doc("input[indices]: a tensor of positions, a mask, or None for each dimension.")
  .composite([](const Tensor& input, TensorList indices) {
    const IndexPlan plan = plan_index(input, indices, "index");
    return plan.indices.empty() ? clone(input) : index_at(plan.input, plan.indices, plan.first);
  })
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), [i5(4)]", "f(5,3), [None, i3(2,2)]", "f(4,5,3), [i4(3), None, i3(3)]", "f(4,3), [b(4)]",
            "f(4,3), [b(4,3)]", "f(4,5,3), [i4(2,1), i5(3)]"})
  .error("f(2,3), [i9(100)]", ErrorKind::Index, "out of range")
  .error("f(2,3), [f(2)]", ErrorKind::Index, "must be long, int, byte or bool")
  .error("f(2,3), [b(3)]", ErrorKind::Index, "does not match the shape")
  .error("f(2,3), [i2(2), i3(3)]", ErrorKind::Index, "could not be broadcast")
  .error("f(2), [i2(2), i2(2)]", ErrorKind::Index, "too many indices");

STRATA_OP(index_put, "index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor")
  .doc(
    "A copy of input with values written (or added, with accumulate) at the positions that input[indices] reads.\n\n"
    ">>> strata.zeros(3).index_put((strata.tensor([0, 2]),), strata.tensor(1.))\ntensor([1., 0., 1.])")
  .composite([](const Tensor& input, TensorList indices, const Tensor& values, bool accumulate) {
    Tensor out = clone(input);
    const IndexPlan plan = plan_index(out, indices, "index_put", values);
    if (plan.indices.empty()) return copy(out, values);
    if (plan.input.get() == out.get()) return index_put_at(input, plan.indices, values, accumulate, plan.first);
    index_put_at_(plan.input, plan.indices, values, accumulate, plan.first);
    return out;
  })
  .no_out()
  .dtypes(kStorageTypes)
  .autocast_cuda(Autocast::Promote)
  .samples({"f(5,3), [i5(4)], f(4,3), True", "f(5,3), [None, i3(2)], f(), True",
            "f(4,5,3), [i4(3), None, i3(3)], f(3,5), True", "f(4,3), [b(4)], f(3)", "f(4,3), [b(4,3)], f()"})
  .error("f(5,3), [i5(4)], f(2)", ErrorKind::Runtime, "cannot be broadcast")
  .error("f(5), [i5(1)], f(1,1)", ErrorKind::Runtime, "cannot be broadcast")
  .error("f(2,3), [i9(100)], f()", ErrorKind::Index, "out of range");

STRATA_OP(index_put_inplace,
          "index_put_(Tensor(a!) input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)")
  .doc(
    "Writes values (or adds them, with accumulate) at the positions that input[indices] reads.\n\n"
    ">>> strata.zeros(3).index_put_((strata.tensor([0, 2]),), strata.tensor(1.))\ntensor([1., 0., 1.])")
  .composite([](const Tensor& input, TensorList indices, const Tensor& values, bool accumulate) {
    const IndexPlan plan = plan_index(input, indices, "index_put_", values);
    if (plan.indices.empty()) copy_(input, values);
    else index_put_at_(plan.input, plan.indices, values, accumulate, plan.first);
    return input;
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), [i5(4)], f(3)", "f(5,3), [None, i3(2)], f()"})
  .error("f(5,3), [i5(4)], f(2)", ErrorKind::Runtime, "cannot be broadcast");

int64_t number_of_nonzero(const TensorImpl& t) {
  return t.device.type == DeviceType::Cpu ? cpu::count_nonzero(t) : cuda::count_nonzero(t);
}

STRATA_OP(nonzero, "nonzero(Tensor input) -> Tensor")
  .doc(
    "The positions of the non-zero elements, one row each.\n\n>>> strata.tensor([0, 3, 0, "
    "4]).nonzero()\ntensor([[1],\n        [3]])")
  .infer([](const args::nonzero& c) {
    const TensorImpl& input = c.input();
    if (input.device.type == DeviceType::Meta) refuse_shape_from_values(c.op().name.c_str());
    c.out()->dtype = DType::I64;
    c.out()->set_shape(Shape(std::array{number_of_nonzero(input), int64_t{input.ndim}}));
  })
  .kernel("chunks", [](const args::nonzero& c) { cpu::nonzero(*c.out(), c.input()); })
  .kernel("reference",
          [](const args::nonzero& c) {
            const TensorImpl& input = c.input();
            int64_t row = 0;
            cpu::each_index(input.sizes(), [&](const cpu::Index& at) {
              if (!cpu::get<bool>(input, at)) return;
              for (int64_t d = 0; d < input.ndim; ++d) cpu::set(*c.out(), {row, d}, at[static_cast<size_t>(d)]);
              ++row;
            });
          })
  .cuda("tiles", [](const args::nonzero& c, Workspace& workspace) { cuda::nonzero(*c.out(), c.input(), workspace); })
  .no_grad_outputs({0})
  .dtypes(kStorageTypes)
  .samples({"i2(5)", "b(3,4)", "i2(0,3)", "i2()", "f(3)"});

STRATA_OP(nonzero_static, "nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor")
  .doc(
    "The first `size` rows of nonzero(input); rows of fill_value if there are fewer.\n\n>>> strata.tensor([0, 3, "
    "4]).nonzero_static(size=1)\ntensor([[1]])")
  .composite([](const Tensor& input, int64_t size, int64_t fill_value) {
    STRATA_CHECK(size >= 0, Runtime, "nonzero_static: size must be an integer >= 0, got {}", size);
    const Tensor out = full({size, input.dim()}, fill_value, DType::I64);
    if (input.is_meta()) return out;
    const Tensor found = nonzero(input);
    const int64_t n = std::min(size, found.size(0));
    copy_(narrow(out, 0, 0, n), narrow(found, 0, 0, n));
    return out;
  })
  .dtypes(kStorageTypes)
  .samples({"i2(5), size=2", "b(3,4), size=20, fill_value=7", "i2(0,3), size=1"})
  .error("i2(5), size=-1", ErrorKind::Runtime, "size must be an integer >= 0");

STRATA_OP(argwhere, "argwhere(Tensor input) -> Tensor")
  .doc("The positions of the non-zero elements, one row each.\n\n>>> strata.tensor([0, 3]).argwhere()\ntensor([[1]])")
  .composite([](const Tensor& input) { return nonzero(input); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i2(5)", "b(3,4)"});

}  // namespace strata
