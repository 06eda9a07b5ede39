#include "ops/index_expr.h"

#include "autograd/autograd.h"

namespace strata {
namespace {

Tensor apply(const char* name, const Args& args) { return call(find_op(name), args); }

int dimensions_used(const Index& item) {
  if (std::holds_alternative<int64_t>(item) || std::holds_alternative<Slice>(item)) return 1;
  if (const auto* t = std::get_if<Tensor>(&item)) return t->dtype() == DType::Bool ? t->dim() : 1;
  return 0;
}

struct Plan {
  Tensor view;                   // after ints, slices, None and Ellipsis
  std::vector<Tensor> indices;   // one per dimension of `view`; undefined where the whole dimension stays
  bool advanced = false;
};

void set_index(Plan& plan, size_t dim, Tensor index) {
  if (plan.indices.size() <= dim) plan.indices.resize(dim + 1);
  plan.indices[dim] = std::move(index);
  plan.advanced = true;
}

Plan make_plan(const Tensor& t, std::span<const Index> items) {
  int used = 0, ellipses = 0;
  for (const Index& item : items) used += dimensions_used(item), ellipses += std::holds_alternative<Ellipsis>(item);
  STRATA_CHECK(ellipses <= 1, Index, "an index can only have a single ellipsis ('...')");
  STRATA_CHECK(used <= t.dim(), Index, "too many indices for tensor of dimension {}", t.dim());
  Plan plan{t, {}, false};
  int64_t dim = 0;
  for (const Index& item : items) {
    if (const auto* i = std::get_if<int64_t>(&item)) {
      const int64_t size = plan.view->shape[dim];
      STRATA_CHECK(*i >= -size && *i < size, Index, "index {} is out of bounds for dimension {} with size {}", *i, dim, size);
      plan.view = apply("select", Args(plan.view, dim, *i));
    } else if (const auto* s = std::get_if<Slice>(&item)) {
      STRATA_CHECK(s->step > 0, Value, "step must be greater than zero, got {}", s->step);
      const bool whole = !s->start && !s->stop && s->step == 1;
      if (!whole) plan.view = apply("slice", Args(plan.view, dim, s->start, s->stop, s->step));
      ++dim;
    } else if (std::holds_alternative<NewAxis>(item)) {
      plan.view = apply("unsqueeze", Args(plan.view, dim++));
    } else if (std::holds_alternative<Ellipsis>(item)) {
      dim += t.dim() - used;
    } else if (const auto* b = std::get_if<bool>(&item)) {  // x[True]: a new dimension of one or no element
      plan.view = apply("unsqueeze", Args(plan.view, dim));
      Tensor index = make_tensor(Shape(std::initializer_list<int64_t>{*b ? 1 : 0}), DType::I64);
      if (*b) *index.data<int64_t>() = 0;
      set_index(plan, static_cast<size_t>(dim++), index);
    } else {
      const Tensor& index = std::get<Tensor>(item);
      STRATA_CHECK(index.dtype() == DType::Bool || is_integral(index.dtype()), Index,
                   "tensors used as indices must be long, int, byte or bool tensors, found {}", name_of(index.dtype()));
      if (index.dtype() == DType::Bool && index.dim() == 0) {
        plan.view = apply("unsqueeze", Args(plan.view, dim));
        Tensor place = make_tensor(Shape(std::initializer_list<int64_t>{index.item<bool>() ? 1 : 0}), DType::I64);
        if (place.numel()) *place.data<int64_t>() = 0;
        set_index(plan, static_cast<size_t>(dim++), place);
      } else if (index.dtype() != DType::Bool && index.dim() == 0 && !index.requires_grad() && index.numel() == 1) {
        const auto i = index.item<int64_t>();
        const int64_t size = plan.view->shape[dim];
        STRATA_CHECK(i >= -size && i < size, Index, "index {} is out of bounds for dimension {} with size {}", i, dim, size);
        plan.view = apply("select", Args(plan.view, dim, i));
      } else {
        set_index(plan, static_cast<size_t>(dim), index);
        dim += std::max(1, dimensions_used(item));
        // A mask of several dimensions takes as many: the indices after it line up with what follows.
        if (index.dtype() == DType::Bool && index.dim() > 1) plan.indices.resize(static_cast<size_t>(dim));
      }
    }
  }
  return plan;
}

// A mask of k dimensions stands for k index tensors, the coordinates of its true elements.
std::vector<Tensor> expand_masks(const Plan& plan) {
  std::vector<Tensor> out;
  for (size_t d = 0; d < plan.indices.size(); ++d) {
    const Tensor& index = plan.indices[d];
    if (!index || index.dtype() != DType::Bool) {
      out.push_back(index);
      continue;
    }
    for (int k = 0; k < index.dim(); ++k)
      STRATA_CHECK(index->shape[k] == plan.view->shape[d + static_cast<size_t>(k)], Index,
                   "The shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}", to_string(index.shape()), k,
                   to_string(plan.view.shape()), d + static_cast<size_t>(k));
    const Tensor places = apply("nonzero", Args(index));
    for (int k = 0; k < index.dim(); ++k) out.push_back(apply("select", Args(places, 1, int64_t{k})));
    d += static_cast<size_t>(index.dim()) - 1;
  }
  return out;
}
}  // namespace

Tensor get_item(const Tensor& t, std::span<const Index> items) {
  const Plan plan = make_plan(t, items);
  if (plan.advanced) {
    const std::vector<Tensor> indices = expand_masks(plan);
    return apply("index", Args(plan.view, TensorList(std::span<const Tensor>(indices))));
  }
  return plan.view.get() == t.get() ? apply("alias", Args(t)) : plan.view;
}

void set_item(const Tensor& t, std::span<const Index> items, Operand value) {
  const Plan plan = make_plan(t, items);
  const bool number = value.value.is_number();
  if (!plan.advanced) {
    if (number) {
      call_inplace(find_op("fill"), Args(plan.view, value));
      return;
    }
    // NumPy's rule: leading dimensions of size 1 of the value are dropped.
    Tensor source = Ref<TensorImpl>::share(value.value.tensor);
    while (source.dim() > plan.view.dim() && source->shape[0] == 1) source = apply("select", Args(source, 0, 0));
    call_inplace(find_op("copy"), Args(plan.view, source, false));
    return;
  }
  Tensor source;
  if (number) {
    Args args = find_op("full").defaults;
    args[0] = Value(IntList()), args[1] = value.value, args[2] = Value(t.dtype());
    source = call(find_op("full"), args);
  } else {
    source = Ref<TensorImpl>::share(value.value.tensor);
    if (source.dtype() != t.dtype()) {
      Args args = find_op("to", "dtype").defaults;
      args[0] = Value(source), args[1] = Value(t.dtype());
      source = call(find_op("to", "dtype"), args);
    }
  }
  const std::vector<Tensor> indices = expand_masks(plan);
  Args args = find_op("index_put").defaults;
  args[0] = Value(plan.view), args[1] = Value(TensorList(std::span<const Tensor>(indices))), args[2] = Value(source);
  call_inplace(find_op("index_put"), args);
}

}  // namespace strata
