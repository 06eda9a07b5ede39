#include "ops/indexing/expression.h"

#include <algorithm>

#include "ops/indexing/indexing.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/indexing/indexing.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {

// A zero-dimensional integer tensor counts as an integer, without a copy.
const Tensor* as_tensor(const Index& i) { return std::get_if<Tensor>(&i); }
bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::U8; }

// The number of dimensions of x that an entry consumes.
int64_t consumed(const Index& i) {
  if (std::holds_alternative<int64_t>(i) || std::holds_alternative<Slice>(i)) return 1;
  if (const Tensor* t = as_tensor(i)) return is_mask(*t) ? t->dim() : 1;
  return 0;
}

// The views that an expression makes, and the remaining index tensors: one entry per dimension of the view.
struct Applied {
  Tensor view;
  std::vector<Tensor> tensors;
  bool any = false;
};

Applied apply(const Tensor& x, std::span<const Index> indices) {
  int64_t used = 0, ellipses = 0;
  for (const Index& i : indices) {
    used += consumed(i);
    ellipses += std::holds_alternative<Ellipsis>(i);
  }
  STRATA_CHECK(ellipses <= 1, Index, "an index can only have a single ellipsis ('...')");
  STRATA_CHECK(used <= x.dim(), Index, "too many indices for tensor of dimension {}: the index uses {}", x.dim(), used);

  Applied out{x, {}, false};
  int64_t dim = 0;      // in the view
  int64_t covered = 0;  // dimensions covered by entries of out.tensors
  const auto place = [&](const Tensor& t, int64_t dims = 1) {
    out.tensors.resize(out.tensors.size() + static_cast<size_t>(dim - covered));
    out.tensors.push_back(t);
    out.any = true;
    dim += dims;
    covered = dim;
  };
  for (const Index& i : indices) {
    if (const auto* n = std::get_if<int64_t>(&i)) {
      const int64_t size = out.view->shape[dim];
      STRATA_CHECK(*n >= -size && *n < size, Index, "index {} is out of bounds for dimension {} with size {}", *n, dim,
                   size);
      out.view = select(out.view, dim, *n);
    } else if (const auto* s = std::get_if<Slice>(&i)) {
      const int64_t step = s->step.value_or(1);
      STRATA_CHECK(step > 0, Value, "step must be greater than zero, got {}; use flip() to reverse", step);
      if (s->start || s->stop || step != 1) out.view = slice(out.view, dim, s->start, s->stop, step);
      ++dim;
    } else if (std::holds_alternative<NewAxis>(i)) {
      out.view = unsqueeze(out.view, dim++);
    } else if (std::holds_alternative<Ellipsis>(i)) {
      dim += x.dim() - used;
    } else if (const auto* b = std::get_if<bool>(&i)) {
      out.view = unsqueeze(out.view, dim);
      place(*b ? zeros(1, DType::I64) : zeros(0, DType::I64));
    } else {
      const Tensor& t = *as_tensor(i);
      if (!is_mask(t)) {
        place(t);
      } else if (t.dim() == 0) {
        if (t.is_meta()) refuse_shape_from_values("index");
        out.view = unsqueeze(out.view, dim);
        place(t.item<bool>() ? zeros(1, DType::I64) : zeros(0, DType::I64));
      } else {
        for (int d = 0; d < t.dim(); ++d)
          STRATA_CHECK(
            t->shape[d] == out.view->shape[dim + d], Index,
            "the shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}",
            to_string(t.shape()), d, to_string(out.view.shape()), dim + d);
        if (t.is_meta()) {  // only plan_index knows whether its values are needed
          place(t, t.dim());
          continue;
        }
        const Tensor found = nonzero(t);
        for (int d = 0; d < t.dim(); ++d) place(select(found, 1, d));
      }
    }
  }
  return out;
}

// Removes leading dimensions of size 1 that the target does not have, as in NumPy.
Tensor without_leading_ones(Tensor value, int dims) {
  while (value.dim() > dims && value->shape[0] == 1) value = select(value, 0, 0);
  return value;
}
}  // namespace

Tensor get_item(const Tensor& x, std::span<const Index> indices) {
  if (indices.size() == 1)  // x[i], the common case
    if (const auto* n = std::get_if<int64_t>(&indices[0])) {
      STRATA_CHECK(x.dim() > 0, Index, "invalid index of a 0-dim tensor. Use tensor.item() to convert it to a number");
      STRATA_CHECK(*n >= -x->shape[0] && *n < x->shape[0], Index,
                   "index {} is out of bounds for dimension 0 with size {}", *n, x->shape[0]);
      return select(x, 0, *n);
    }
  const Applied a = apply(x, indices);
  if (a.any) return index(a.view, a.tensors);
  return a.view.get() == x.get() ? view_of(x) : a.view;
}

void set_item(const Tensor& x, std::span<const Index> indices, const Operand& value) {
  STRATA_CHECK(value.value.tag != Tag::None, Type, "an element cannot be set to an undefined tensor");
  const Applied a = apply(x, indices);
  const bool is_number = value.value.tag != Tag::Tensor;
  if (!a.any && is_number) {
    fill_(a.view, value.value.scalar());
    return;
  }
  Tensor source = is_number ? full({}, value.value.scalar(), x.dtype(), x.device())
                            : Tensor(Ref<TensorImpl>::share(value.value.tensor));
  if (!a.any) {
    copy_(a.view, without_leading_ones(source, a.view.dim()));
    return;
  }
  const bool lone_number = source.dim() == 0 && source.device().type == DeviceType::Cpu;  // may be on the host
  if (lone_number) source = to(source, std::optional(x.device()));
  index_put_(a.view, a.tensors, to(without_leading_ones(source, 0), x.dtype()));
}

}  // namespace strata
