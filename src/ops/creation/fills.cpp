// Tensors made from sizes and a value.
#include "strata/ops/creation/fills.h"
#include "strata/args/creation/fills.h"

#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "ops/layout.h"
#include "ops/transfer.h"

namespace strata {
namespace {

void keep_as_is(const Call&) {}
template <int kValue> void fill_with(const Call& c) { fill_values(*c.out(), kValue); }
template <class V> Scalar number_of(const Call& c) {
  if constexpr (requires(const V& a) { a.fill_value_value(); }) return V(c).fill_value();
  else return V(c).value();
}
template <class V> void fill_from(const Call& c) { fill_values(*c.out(), number_of<V>(c)); }
template <int kValue> void plain_fill_with(const Call& c) { cpu::fill_reference(*c.out(), kValue); }
template <class V> void plain_fill_from(const Call& c) { cpu::fill_reference(*c.out(), number_of<V>(c)); }

DType dtype_or(const Value& v, DType otherwise) { return v ? v.dtype() : otherwise; }

template <class V> void infer_sized(const Call& c) {
  const V a(c);
  c.outs[0]->set_shape(a.size());
  set_options(c, dtype_or(a.dtype_value(), default_dtype()), a.device_value(), a.requires_grad_value());
}
void infer_empty(const Call& c) {
  const args::empty a(c);
  infer_sized<args::empty>(c);
  if (a.memory_format()) set_layout(*c.outs[0], *a.memory_format(), nullptr, c.op.name.c_str());
}
void infer_full(const Call& c) {
  const args::full a(c);
  c.outs[0]->set_shape(a.size());
  const DType dtype = dtype_or(a.dtype_value(), scalar_dtype(a.fill_value()));
  check_in_range(a.fill_value(), dtype, c.op.name.c_str(), true);
  set_options(c, dtype, a.device_value(), a.requires_grad_value());
}
template <class V> void infer_like(const Call& c) {
  const V a(c);
  const TensorImpl& like = a.input();
  TensorImpl& out = *c.outs[0];
  out.set_shape(like.sizes());
  set_options(c, dtype_or(a.dtype_value(), like.dtype), a.device_value(), a.requires_grad_value());
  set_layout(out, a.memory_format(), &like, c.op.name.c_str());
}
void infer_full_like(const Call& c) {
  const args::full_like a(c);
  infer_like<args::full_like>(c);
  check_in_range(a.fill_value(), c.outs[0].dtype(), "full_like", true);
}
}  // namespace

STRATA_OP(empty,
          "empty(int[] size, *, dtype? dtype=None, device? device=None, bool requires_grad=False, str? "
          "memory_format=None) -> Tensor")
  .doc("A new tensor with uninitialized content.\n\n>>> strata.empty(2, 3).shape\nstrata.Size([2, 3])")
  .infer(infer_empty)
  .kernel("reference", keep_as_is)
  .handles_complex()
  .cuda("empty", keep_as_is)
  .draws()
  .add_dtypes(kComplexTypes)
  .samples({"[2, 3]", "[0, 2]", "[]", "[2, 3, 4, 5], memory_format='channels_last'"})
  .error("[2, -1]", ErrorKind::Runtime, "negative")
  .error("[4611686018427387904, 8]", ErrorKind::Runtime, "more elements than can be addressed");

STRATA_OP(
  full,
  "full(int[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc(
    "A new tensor filled with a value; its dtype is that of the value unless given.\n\n>>> strata.full((2,), "
    "7)\ntensor([7, 7])")
  .infer(infer_full)
  .kernel("fill", fill_from<args::full>)
  .kernel("reference", plain_fill_from<args::full>)
  .handles_complex()
  .cuda("fill", fill_from<args::full>)
  .add_dtypes(kComplexTypes)
  .samples({"[2, 3], 1.5", "[3], 7", "[], True", "[0], 1", "[4], 2, dtype='float64'"})
  .error("[2], 300, dtype='uint8'", ErrorKind::Runtime, "without overflow")
  .error("[-2], 1.0", ErrorKind::Runtime, "negative");

STRATA_OP(zeros, "zeros(int[] size, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc("A new tensor filled with zeros.\n\n>>> strata.zeros(3)\ntensor([0., 0., 0.])")
  .infer(infer_sized<args::zeros>)
  .kernel("fill", fill_with<0>)
  .kernel("reference", plain_fill_with<0>)
  .handles_complex()
  .cuda("fill", fill_with<0>)
  .add_dtypes(kComplexTypes)
  .samples({"[2, 3]", "[]", "[0, 2]", "[3], dtype='int64'"})
  .error("[-1]", ErrorKind::Runtime, "negative");

STRATA_OP(ones, "ones(int[] size, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc("A new tensor filled with ones.\n\n>>> strata.ones(2)\ntensor([1., 1.])")
  .infer(infer_sized<args::ones>)
  .kernel("fill", fill_with<1>)
  .kernel("reference", plain_fill_with<1>)
  .handles_complex()
  .cuda("fill", fill_with<1>)
  .add_dtypes(kComplexTypes)
  .samples({"[2, 3]", "[]", "[0, 2]", "[3], dtype='bool'"})
  .error("[-1]", ErrorKind::Runtime, "negative");

STRATA_OP(empty_strided,
          "empty_strided(int[] size, int[] stride, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc(
    "A new tensor with uninitialized content and the given strides.\n\n>>> strata.empty_strided((2, 3), (1, "
    "2)).stride()\n(1, 2)")
  .infer([](const args::empty_strided& c) {
    const Shape size = c.size(), stride = c.stride();
    STRATA_CHECK(size.size() == stride.size(), Runtime,
                 "empty_strided: mismatch in length of strides and shape: {} and {}", to_string(stride),
                 to_string(size));
    TensorImpl& out = *c.out();
    out.set_shape(size);
    set_options(c, dtype_or(c.dtype_value(), default_dtype()), c.device_value(), c.requires_grad_value());
    int64_t last = 0;
    const int64_t numel = checked_numel(size);
    for (size_t d = 0; d < size.size(); ++d) {
      int64_t step = 0;
      STRATA_CHECK(stride[d] >= 0, Runtime, "empty_strided: a stride cannot be negative, got {}", to_string(stride));
      STRATA_CHECK(numel == 0 || (!__builtin_mul_overflow(size[d] - 1, stride[d], &step) &&
                                  !__builtin_add_overflow(last, step, &last) && last < INT64_MAX / 8),
                   Runtime, "empty_strided: shape {} with strides {} is larger than can be addressed", to_string(size),
                   to_string(stride));
      out.strides[d] = stride[d];
    }
    out.update_contiguous();
    out.allocate_bytes(numel ? static_cast<size_t>(last + 1) * size_of(out.dtype) : 0);
  })
  .kernel("reference", keep_as_is)
  .handles_complex()
  .cuda("empty", keep_as_is)
  .draws()
  .no_out()
  .add_dtypes(kComplexTypes)
  .samples({"[2, 3], [1, 2]", "[2, 0], [1, 1]", "[], []"})
  .error("[2, 3], [1]", ErrorKind::Runtime, "mismatch in length")
  .error("[2], [-1]", ErrorKind::Runtime, "cannot be negative");

STRATA_OP(empty_like,
          "empty_like(Tensor input, *, dtype? dtype=None, device? device=None, bool requires_grad=False, str? "
          "memory_format=None) -> Tensor")
  .doc(
    "A tensor with uninitialized content, in the shape, dtype and layout of input.\n\n>>> "
    "strata.empty_like(strata.ones(2, 3)).shape\nstrata.Size([2, 3])")
  .infer(infer_like<args::empty_like>)
  .kernel("reference", keep_as_is)
  .handles_complex()
  .cuda("empty", keep_as_is)
  .draws()
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(0,3)", "f(), dtype='int32'"})
  .error("f(2,3), memory_format='channels_last'", ErrorKind::Runtime, "rank 4");

STRATA_OP(full_like,
          "full_like(Tensor input, Scalar fill_value, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False, str? memory_format=None) -> Tensor")
  .doc(
    "A tensor filled with a value, in the shape, dtype and layout of input.\n\n>>> strata.full_like(strata.ones(2), "
    "3)\ntensor([3., 3.])")
  .infer(infer_full_like)
  .kernel("fill", fill_from<args::full_like>)
  .kernel("reference", plain_fill_from<args::full_like>)
  .handles_complex()
  .cuda("fill", fill_from<args::full_like>)
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), 1", "f(0,3), 2", "f(), 3, dtype='int32'"})
  .error("f(2), 300, dtype='int8'", ErrorKind::Runtime, "without overflow");

STRATA_OP(zeros_like,
          "zeros_like(Tensor input, *, dtype? dtype=None, device? device=None, bool requires_grad=False, str? "
          "memory_format=None) -> Tensor")
  .doc("Zeros in the shape, dtype and layout of input.\n\n>>> strata.zeros_like(strata.ones(2))\ntensor([0., 0.])")
  .infer(infer_like<args::zeros_like>)
  .kernel("fill", fill_with<0>)
  .kernel("reference", plain_fill_with<0>)
  .handles_complex()
  .cuda("fill", fill_with<0>)
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(0,3)", "f(), dtype='int32'"})
  .error("f(2,3), memory_format='channels_last'", ErrorKind::Runtime, "rank 4");

STRATA_OP(ones_like,
          "ones_like(Tensor input, *, dtype? dtype=None, device? device=None, bool requires_grad=False, str? "
          "memory_format=None) -> Tensor")
  .doc("Ones in the shape, dtype and layout of input.\n\n>>> strata.ones_like(strata.zeros(2))\ntensor([1., 1.])")
  .infer(infer_like<args::ones_like>)
  .kernel("fill", fill_with<1>)
  .kernel("reference", plain_fill_with<1>)
  .handles_complex()
  .cuda("fill", fill_with<1>)
  .no_method()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(0,3)", "f(), dtype='int32'"})
  .error("f(2,3), memory_format='channels_last'", ErrorKind::Runtime, "rank 4");

STRATA_OP(
  new_empty,
  "new_empty(Tensor input, int[] size, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc(
    "A tensor with uninitialized content and the dtype of input.\n\n>>> "
    "strata.ones(2).new_empty((3,)).shape\nstrata.Size([3])")
  .composite([](const Tensor& input, IntList size, std::optional<DType> dtype, std::optional<Device> device,
                bool requires_grad) { return empty(size, dtype.value_or(input.dtype()), device, requires_grad); })
  .draws()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2), [3, 4]"})
  .error("f(2), [-1]", ErrorKind::Runtime, "negative");

STRATA_OP(new_full,
          "new_full(Tensor input, int[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("A filled tensor with the dtype of input.\n\n>>> strata.ones(2).new_full((3,), 4)\ntensor([4., 4., 4.])")
  .composite([](const Tensor& input, IntList size, Scalar fill_value, std::optional<DType> dtype,
                std::optional<Device> device, bool requires_grad) {
    return full(size, fill_value, dtype.value_or(input.dtype()), device, requires_grad);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2), [3, 4], 1", "f(2), [], 0"})
  .error("f(2), [-1], 1", ErrorKind::Runtime, "negative");

STRATA_OP(
  new_zeros,
  "new_zeros(Tensor input, int[] size, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc("Zeros with the dtype of input.\n\n>>> strata.ones(2).new_zeros((3,))\ntensor([0., 0., 0.])")
  .composite([](const Tensor& input, IntList size, std::optional<DType> dtype, std::optional<Device> device,
                bool requires_grad) { return zeros(size, dtype.value_or(input.dtype()), device, requires_grad); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2), [3, 4]"})
  .error("f(2), [-1]", ErrorKind::Runtime, "negative");

STRATA_OP(
  new_ones,
  "new_ones(Tensor input, int[] size, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc("Ones with the dtype of input.\n\n>>> strata.zeros(2).new_ones((3,))\ntensor([1., 1., 1.])")
  .composite([](const Tensor& input, IntList size, std::optional<DType> dtype, std::optional<Device> device,
                bool requires_grad) { return ones(size, dtype.value_or(input.dtype()), device, requires_grad); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2), [3, 4]"})
  .error("f(2), [-1]", ErrorKind::Runtime, "negative");

STRATA_OP(new_empty_strided,
          "new_empty_strided(Tensor input, int[] size, int[] stride, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc(
    "A tensor with uninitialized content, the given strides and the dtype of input.\n\n>>> "
    "strata.ones(2).new_empty_strided((2, 3), (1, 2)).stride()\n(1, 2)")
  .composite([](const Tensor& input, IntList size, IntList stride, std::optional<DType> dtype,
                std::optional<Device> device, bool requires_grad) {
    return empty_strided(size, stride, dtype.value_or(input.dtype()), device, requires_grad);
  })
  .draws()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2), [2, 3], [1, 2]"})
  .error("f(2), [2], [1, 1]", ErrorKind::Runtime, "mismatch");

STRATA_OP(fill, "fill(Tensor input, Scalar value) -> Tensor")
  .doc("input with every element replaced by a value.\n\n>>> strata.zeros(2).fill_(3)\ntensor([3., 3.])")
  .infer([](const args::fill& c) {
    const TensorImpl& input = c.input();
    check_in_range(c.value(), input.dtype, "fill", true);
    c.out()->dtype = input.dtype;
    c.out()->set_shape(input.sizes());
    set_layout(*c.out(), std::nullopt, &input, "fill");
  })
  .kernel("fill", fill_from<args::fill>)
  .kernel("reference", plain_fill_from<args::fill>)
  .handles_complex()
  .cuda("fill", fill_from<args::fill>)
  .updates()
  .dtypes(kStorageTypes)
  .grad([](const GradContext&, const Tensor& g) -> Grads { return {zeros_like(g)}; })
  .samples({"f(2,3), 1", "f(), 0", "f(0,2), 1"})
  .error("i5(3), 1e30", ErrorKind::Runtime, "without overflow");

STRATA_OP(fill_tensor, "fill.Tensor(Tensor input, Tensor value) -> Tensor")
  .doc(
    "input with every element replaced by that of a zero-dimensional tensor.\n\n>>> "
    "strata.zeros(2).fill_(strata.tensor(3.))\ntensor([3., 3.])")
  .infer([](const args::fill_tensor& c) {
    const TensorImpl &input = c.input(), &value = c.value();
    STRATA_CHECK(value.ndim == 0, Runtime,
                 "fill: only supports 0-dimension value tensor but got tensor with {} dimensions", value.ndim);
    c.out()->dtype = input.dtype;
    c.out()->set_shape(input.sizes());
    set_layout(*c.out(), std::nullopt, &input, "fill");
  })
  .kernel("copy", [](const args::fill_tensor& c) { copy_values(*c.out(), c.value()); })
  .handles_complex()
  .cuda("copy", [](const args::fill_tensor& c) { copy_values(*c.out(), c.value()); })
  .kernel("reference", [](const args::fill_tensor& c) { cpu::copy_reference(*c.out(), c.value()); })
  .updates()
  .dtypes(kStorageTypes)
  .grad([](const GradContext&, const Tensor& g) -> Grads {
    return {zeros_like(g), g};
  })  // the engine sums to the value's shape
  .samples({"f(2,3), f()", "f(0,2), f()"})
  .error("f(2), f(2)", ErrorKind::Runtime, "0-dimension");

STRATA_OP(zero, "zero(Tensor input) -> Tensor")
  .doc("input with every element replaced by zero; zero_() in place.\n\n>>> strata.ones(2).zero_()\ntensor([0., 0.])")
  .infer([](const args::zero& c) {
    const TensorImpl& input = c.input();
    c.out()->dtype = input.dtype;
    c.out()->set_shape(input.sizes());
    set_layout(*c.out(), std::nullopt, &input, "zero");
  })
  .kernel("fill", fill_with<0>)
  .kernel("reference", plain_fill_with<0>)
  .handles_complex()
  .cuda("fill", fill_with<0>)
  .updates()
  .dtypes(kStorageTypes)
  .grad([](const GradContext&, const Tensor& g) -> Grads { return {zeros_like(g)}; })
  .samples({"f(2,3)", "f()", "f(0,2)"});

}  // namespace strata
