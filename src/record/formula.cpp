#include "record/formula.h"

#include <fmt/core.h>

#include "record/promotion.h"

namespace strata {
namespace {

// The contiguous tensor that the result is like, if all others are of its shape and dtype, or such a single value expanded.
const TensorImpl* like_beside_expanded(const Formula& f, const Args& args) {
  const TensorImpl *first = nullptr, *expanded = nullptr;
  for (int k = 0; k < f.inputs; ++k) {
    if (!args.is_tensor(k)) continue;
    const TensorImpl& t = args.tensor(k);
    if (t.wrapped_number || (!t.contiguous && !repeats_one(t))) return nullptr;
    const TensorImpl* other = first ? first : expanded;
    if (other && (t.dtype != other->dtype || !(t.device == other->device) || !t.same_shape(*other))) return nullptr;
    if (!t.contiguous) expanded = &t;
    else if (!first) first = &t;
  }
  return first;
}
const TensorImpl* like_of(const Formula& f, const Args& args) {
  const TensorImpl* first = nullptr;
  for (int k = 0; k < f.inputs; ++k) {
    if (!args.is_tensor(k)) continue;
    const TensorImpl& t = args.tensor(k);
    if (!t.contiguous) [[unlikely]]
      return like_beside_expanded(f, args);
    if (t.wrapped_number) return nullptr;
    if (!first) first = &t;
    else if (t.dtype != first->dtype || !(t.device == first->device) || !t.same_shape(*first)) return nullptr;
  }
  return first;
}

// Fast path for small tensors: contiguous tensors of one shape and floating dtype, numbers, and expanded single values (the
// gradient of a sum) need none of the rules below.
bool infer_alike(const Formula& f, const Args& args, TensorImpl& out) {
  const TensorImpl* first = like_of(f, args);
  if (!first || !is_floating(first->dtype) || f.skip) return false;
  out.dtype = f.predicate ? DType::Bool : first->dtype;
  out.device = first->device;
  out.set_ndim(first->ndim);
  out.numel = first->numel;
  out.contiguous = true;
  for (int d = 0; d < first->ndim; ++d) {
    out.shape[d] = first->shape[d];
    out.strides[d] = first->strides[d];
  }
  return true;
}

}  // namespace

void refuse_dtype(const OpRecord& op, DType found) {
  std::string what = fmt::format("{}: the {} dtype is not supported; ", op.name, name_of(found));
  if (op.dtype_hint) {
    what += op.dtype_hint;
  } else {
    what += "expected one of";
    for (int i = 0; i < kDTypeCount; ++i)
      if (op.accepts.has(static_cast<DType>(i))) what += fmt::format(" {}", name_of(static_cast<DType>(i)));
  }
  fail(ErrorKind::NotImplemented, what);
}

// Whether a comparison has a negative number, which uint64 does not hold.
static bool compares_negative(const Formula& f, const Args& args) {
  if (!f.predicate || !f.floats) return false;
  for (uint32_t k = 0; k < f.inputs; ++k)
    if (args[k].is_number() && args[k].number() < 0) return true;
  return false;
}

DType common_type(const Formula& f, const Args& args) {
  const DType type = result_type(args, f.inputs, f.skip);
  if (type == DType::U64 && compares_negative(f, args)) [[unlikely]]
    return DType::F64;                 // the sign decides: rounding does not matter
  if (f.moves && type == DType::Bool)  // 0.5 as a bool is true: it must not become an integer first
    for (uint32_t k = 0; k < f.inputs; ++k)
      if (args.is_tensor(k) && is_differentiable(args.tensor(k).dtype)) return args.tensor(k).dtype;
  return !f.ints && is_integral(type) ? default_dtype() : type;
}

// A number that becomes an element unchanged must fit; a number in arithmetic need not.
static void check_numbers(const Formula& f, const Call& c, DType type) {
  for (uint32_t k = 0; k < f.inputs; ++k)
    if (c.args[k].is_number()) check_in_range(c.args[k].scalar(), type, c.op.name.c_str());
}
// An operand that does not take part in promotion must not lose its imaginary part.
static void check_skipped(const Formula& f, const Call& c, DType type) {
  for (uint32_t k = 0; k < f.inputs; ++k)
    STRATA_CHECK(is_complex(type) || !(f.skip >> k & 1) || !c.args.is_tensor(k) || !is_complex(c.args.tensor(k).dtype),
                 Runtime, "{}: a complex {} cannot be converted to {}", c.op.name, c.op.params[k].name, name_of(type));
}

void infer_pointwise(const Call& c) {
  const Formula& f = formula_of(c);
  TensorImpl& out = *c.outs[0];
  if (infer_alike(f, c.args, out)) {
    const DType common = f.predicate ? result_type(c.args, f.inputs) : out.dtype;
    if (!c.op.accepts.has(common)) [[unlikely]]
      refuse_dtype(c.op, common);
    return;
  }
  const DType given = result_type(c.args, f.inputs, f.skip);
  if (!c.op.accepts.has(given)) [[unlikely]]
    refuse_dtype(c.op, given);
  const DType common = !f.ints && is_integral(given) ? default_dtype() : given;
  out.dtype = f.predicate                                               ? DType::Bool
              : is_complex(common) && c.op.complex_formula->real_result ? real_type(common)
                                                                        : common;
  if (f.moves) check_numbers(f, c, common);
  if (f.skip) check_skipped(f, c, common);
  for (int k = 0; k < f.members; ++k)
    STRATA_CHECK(is_complex(common) || c.args[f.inputs + k].tag != Tag::Complex, Runtime,
                 "{}: for real tensors the argument {} must not be a complex number", c.op.name,
                 c.op.params[f.inputs + k].name);
  if (f.exact_numbers && is_integral(common))
    for (int k = 0; k < f.members; ++k)
      STRATA_CHECK(c.args[f.inputs + k].tag != Tag::Float, Runtime,
                   "{}: for integer tensors the argument {} must not be a floating point number", c.op.name,
                   c.op.params[f.inputs + k].name);
  broadcast_shape(c.args, f.inputs, out, c.op.name.c_str());
  // The first tensor that is not broadcast determines the memory order.
  for (int k = 0; k < f.inputs; ++k)
    if (c.args.is_tensor(k) && c.args.tensor(k).same_shape(out)) return out.set_strides_like(c.args.tensor(k));
  out.set_contiguous_strides();
}

}  // namespace strata
