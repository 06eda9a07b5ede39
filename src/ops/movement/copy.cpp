// Copies and conversions.
#include "strata/args/movement/copy.h"
#include "strata/ops/movement/copy.h"

#include <cstring>

#include "autograd/node.h"
#include "base/warning.h"
#include "cpu/movement/copy.h"
#include "ops/layout.h"
#include "ops/transfer.h"
#include "record/rows.h"
#include "strata/ops/creation/fills.h"

namespace strata {
namespace {

void warn_if_real(DType target) {
  if (!is_complex(target) && target != DType::Bool) warn("Casting complex values to real discards the imaginary part");
}

void infer_copy(const Call& c) {
  const args::copy arg(c);
  const TensorImpl &input = arg.input(), &src = arg.src();
  if (is_complex(src.dtype)) warn_if_real(input.dtype);
  TensorImpl& out = *c.outs[0];
  out.dtype = input.dtype;
  out.device = input.device;
  out.set_shape(input.sizes());
  set_layout(out, std::nullopt, &input, "copy");
  const int lead = input.ndim - src.ndim;
  bool fits = lead >= 0;
  for (int d = 0; fits && d < src.ndim; ++d) fits = src.shape[d] == input.shape[d + lead] || src.shape[d] == 1;
  STRATA_CHECK(fits, Runtime, "copy: a source of shape {} cannot be broadcast to shape {}", to_string(src.sizes()),
               to_string(input.sizes()));
}

std::optional<std::string_view> format_of(const Value& v) { return v ? std::optional(v.string()) : std::nullopt; }

// `to` returns the tensor itself if nothing changes, so it is a composite of this op.
Tensor converted(const Tensor& input, DType dtype, std::optional<Device> device, bool non_blocking, bool copy,
                 std::optional<std::string_view> format, const char* op) {
  const Device target = device ? require_available(*device) : input.device();
  if (is_complex(input.dtype())) warn_if_real(dtype);
  const bool same_layout = !format || *format == "preserve_format" || has_layout(*input, *format, op);
  if (!copy && dtype == input.dtype() && target == input.device() && same_layout) return input;
  return to_copy(input, dtype, format, target, non_blocking);
}

// A copy of results of a group of deferred ops, converted to the dtype of the copy.
std::optional<RowOp> copy_rows(const Call& c) {
  const TensorImpl &x = c.args.tensor(0), &out = *c.out();
  const auto is_usual = [](DType t) { return is_floating(t) && size_of(t) > 1; };
  const DType compute = compute_type(x.dtype);
  if (!is_usual(x.dtype) || !is_usual(out.dtype) || compute != compute_type(out.dtype)) return {};
  return RowOp{.compute = compute,
               .shape = x.sizes(),
               .in = {{{}, &x}},
               .joins = true,
               .run = [size = size_of(compute)](const RowBlock& b) {
                 std::memcpy(b.out[0], b.in[0], static_cast<size_t>(b.count) * size);
               }};
}
// On GPUs.
std::optional<RowOp> gpu_copy_rows(const Call& c) {
  std::optional<RowOp> op = copy_rows(c);
  const TensorImpl& x = c.args.tensor(0);
  if (!op || op->compute != DType::F32 || x.ndim == 0 || x.shape[x.ndim - 1] % 8 != 0) return {};
  op->gpu = std::make_shared<GpuRows>(GpuRows{.header = "cuda/common/row_threads.cuh", .functor = "CopyRow"});
  return op;
}
}  // namespace

STRATA_OP(copy, "copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor")
  .doc(
    "The values of src, broadcast to the shape of input and converted to its dtype; copy_() writes them into input.\n\n"
    ">>> strata.zeros(2).copy_(strata.tensor([1, 2]))\ntensor([1., 2.])")
  .infer(infer_copy)
  .updates()
  .dtypes(kStorageTypes)
  .kernel("strided", [](const args::copy& c) { cpu::copy(*c.out(), c.src()); })
  .kernel("reference", [](const args::copy& c) { cpu::copy_reference(*c.out(), c.src()); })
  .crosses_devices()
  .handles_complex()
  .cuda("copy", [](const args::copy& c) { copy_values(*c.out(), c.src(), !c.non_blocking()); })
  .grad([](const grads::copy& c, const Tensor& g) -> Grads {
    const Tensor to_source = c.has_src() && g.device() != c.meta_of_src().device
                               ? to_copy(g, g.dtype(), std::nullopt, c.meta_of_src().device)
                               : g;
    return {c.needs_input() ? zeros_like(g) : Tensor(), to_source};
  })
  .samples({"f(2,3), f(2,3)", "f(2,3), f(3)", "f(2,3), f()", "f(0,3), f(3)", "f(), f()", "f(2,3), f(2,1), True"})
  .error("f(2,3), f(2)", ErrorKind::Runtime, "cannot be broadcast")
  .error("f(3), f(2,3)", ErrorKind::Runtime, "cannot be broadcast");

STRATA_OP(clone, "clone(Tensor input, *, str? memory_format=None) -> Tensor")
  .doc("A copy.\n\n>>> a = strata.ones(2); b = a.clone(); b.data_ptr() == a.data_ptr()\nFalse")
  .infer([](const args::clone& c) {
    const TensorImpl& input = c.input();
    TensorImpl& out = *c.out();
    out.dtype = input.dtype;
    out.device = input.device;
    out.set_shape(input.sizes());
    set_layout(out, format_of(c.memory_format_value()), &input, "clone");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .kernel("strided", [](const args::clone& c) { cpu::copy(*c.out(), c.input()); })
  .with(computes_rows<copy_rows>)
  .with(computes_rows<gpu_copy_rows, Backend::Cuda>)
  .kernel("reference", [](const args::clone& c) { cpu::copy_reference(*c.out(), c.input()); })
  .handles_complex()
  .cuda("copy", [](const args::clone& c) { copy_values(*c.out(), c.input()); })
  .grad([](const GradContext&, const Tensor& g) -> Grads { return {g}; })
  .samples({"f(2,3)", "f()", "f(0,3)", "f(2,3,4,5), memory_format='channels_last'",
            "f(5,7,3), memory_format='contiguous_format'"})
  .error("f(2,3), memory_format='channels_last'", ErrorKind::Runtime, "rank 4")
  .error("f(2,3), memory_format='diagonal'", ErrorKind::Value, "unknown memory format");

STRATA_OP(contiguous, "contiguous(Tensor(a) input, *, str memory_format='contiguous_format') -> Tensor(a)")
  .doc(
    "input itself if it is contiguous, otherwise a contiguous copy.\n\n>>> strata.ones(2, "
    "3).t().contiguous().stride()\n(2, 1)")
  .composite([](const Tensor& input, std::string_view memory_format) {
    return has_layout(*input, memory_format, "contiguous") ? input : clone(input, memory_format);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f()", "f(2,3,4,5), memory_format='channels_last'"})
  .error("f(2,3), memory_format='channels_last'", ErrorKind::Runtime, "rank 4");

STRATA_OP(to_copy,
          "to_copy(Tensor input, dtype dtype, str? memory_format=None, device? device=None, bool non_blocking=False) "
          "-> Tensor")
  .doc("A copy of another dtype and layout, on another device.")
  .infer([](const args::to_copy& c) {
    const TensorImpl& input = c.input();
    TensorImpl& out = *c.out();
    out.dtype = c.dtype();
    out.device = c.device() ? require_available(*c.device()) : input.device;
    out.set_shape(input.sizes());
    set_layout(out, format_of(c.memory_format_value()), &input, "to");
  })
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .crosses_devices()
  .kernel("strided", [](const args::to_copy& c) { cpu::copy(*c.out(), c.input()); })
  .with(computes_rows<copy_rows>)
  .with(computes_rows<gpu_copy_rows, Backend::Cuda>)
  .kernel("reference", [](const args::to_copy& c) { cpu::copy_reference(*c.out(), c.input()); })
  .handles_complex()
  .cuda("copy", [](const args::to_copy& c) { copy_values(*c.out(), c.input(), !c.non_blocking()); })
  .grad([](const grads::to_copy& c, const Tensor& g) -> Grads {  // the engine converts to the input's dtype
    return {g.device() == c.meta_of_input().device ? g : to_copy(g, g.dtype(), std::nullopt, c.meta_of_input().device)};
  })
  .samples({"f(2,3), 'float64'", "f(2,3,4,5), 'float64', 'channels_last'"})
  .error("f(2,3), 'float64', 'channels_last'", ErrorKind::Runtime, "rank 4");

STRATA_OP(
  to_dtype,
  "to.dtype(Tensor input, dtype dtype, bool non_blocking=False, bool copy=False, *, str? memory_format=None) -> Tensor")
  .doc(
    "input with another dtype; input itself if it already has that.\n\n>>> strata.ones(2).to(strata.int64)\ntensor([1, "
    "1])")
  .composite([](const Tensor& input, DType dtype, bool non_blocking, bool copy,
                std::optional<std::string_view> memory_format) {
    return converted(input, dtype, std::nullopt, non_blocking, copy, memory_format, "to");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), 'float64'", "f(0,2), 'float64', False, True"})
  .error("f(2,3), 'float64', memory_format='nowhere'", ErrorKind::Value, "unknown memory format");

STRATA_OP(to_device,
          "to.device(Tensor(a) input, device? device=None, dtype? dtype=None, bool non_blocking=False, bool "
          "copy=False, *, str? memory_format=None) -> Tensor(a)")
  .doc(
    "input on another device, and with another dtype if one is given.\n\n>>> strata.ones(2).to('cpu')\ntensor([1., "
    "1.])")
  .composite([](const Tensor& input, std::optional<Device> device, std::optional<DType> dtype, bool non_blocking,
                bool copy, std::optional<std::string_view> memory_format) {
    return converted(input, dtype.value_or(input.dtype()), device, non_blocking, copy, memory_format, "to");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), 'cpu'", "f(), 'cpu', 'float64'", "f(2,3), 'cpu', copy=True"});

STRATA_OP(to_other,
          "to.other(Tensor(a) input, Tensor other, bool non_blocking=False, bool copy=False, *, str? "
          "memory_format=None) -> Tensor(a)")
  .doc(
    "input with the dtype and device of another tensor.\n\n>>> strata.ones(2).to(strata.tensor(1)).dtype\nstrata.int64")
  .composite([](const Tensor& input, const Tensor& other, bool non_blocking, bool copy,
                std::optional<std::string_view> memory_format) {
    return converted(input, other.dtype(), other.device(), non_blocking, copy, memory_format, "to");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), f(2)", "f(2,3), f(2), False, True"});

STRATA_OP(type_as, "type_as(Tensor(a) input, Tensor other) -> Tensor(a)")
  .doc("input with the dtype of another tensor.\n\n>>> strata.ones(2).type_as(strata.tensor(1))\ntensor([1, 1])")
  .composite([](const Tensor& input, const Tensor& other) {
    return converted(input, other.dtype(), other.device(), false, false, std::nullopt, "type_as");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), f(2)", "f(2), f(3)"});

}  // namespace strata
