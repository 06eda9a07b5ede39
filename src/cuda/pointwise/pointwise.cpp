// Launches the kernels of cuda/pointwise/pointwise.cuh: turns arguments into a walk over memory, the walk into
// parameters, and splits it into pieces of at most 2^31 elements, so that the kernels can use 32-bit offsets.
#include "cuda/pointwise/pointwise.h"

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/movement/rows.h"
#include "cuda/movement/transpose.h"
#include "cuda/pointwise/complex.h"
#include "cuda/pointwise/pointwise_params.h"
#include "cuda/pointwise/walk_parts.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"
#include "record/formula.h"

namespace strata::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr int64_t kVector = 8;  // elements of a thread
static_assert(kPointwiseDims == kAxesMost && kPointwiseOperands == kMaxOperands && Walk::kMaxViews == kMaxOperands + 1);

template <class T> uint64_t bits_of(T v) {
  if constexpr (sizeof(T) == 4) return std::bit_cast<uint32_t>(v);
  else return std::bit_cast<uint64_t>(v);
}

// The kernels of one functor for float, double and int64_t, and for uint64 if the sign matters.
struct Kernels {
  Function of[3], u64;
  Kernels(const std::string& file, const std::string& name)
      : of{{file, name + "_f32"}, {file, name + "_f64"}, {file, name + "_i64"}}, u64{file, name + "_u64"} {}
  const Function& operator[](DType compute) const { return compute == DType::U64 ? u64 : of[kernel_index(compute)]; }
};

const Kernels& kernels_of(const Formula& f) {
  void* known = f.device.load(std::memory_order_acquire);
  if (!known) {
    std::string_view file = f.loops.header;  // "device/functors/unary_math.h"
    file.remove_prefix(file.rfind('/') + 1);
    file.remove_suffix(2);
    auto* made = new Kernels(std::string(file), f.loops.name);
    if (f.device.compare_exchange_strong(known, made, std::memory_order_acq_rel)) known = made;
    else delete made;
  }
  return *static_cast<const Kernels*>(known);
}

// Launches a walk that fits 32-bit offsets.
void launch_part(const Stream& stream, const Function& kernel, DType compute, const Walk& w, PointwiseParams& p,
                 const int* operand_of) {
  bool dense = true, rows = w.ndim > 1 && w.shape[w.ndim - 1] % kVector == 0, same = true;
  p.count = static_cast<uint32_t>(w.total);
  p.ndim = w.ndim;
  for (int k = 0; k < w.views; ++k) {
    PointwiseParams::View& v = p.view[operand_of[k]];
    v.data = reinterpret_cast<uint64_t>(w.view[k].data);
    v.type = static_cast<int32_t>(w.view[k].type);
    v.log_size = std::countr_zero(size_of(w.view[k].type));
    dense &= w.ndim == 1 && w.view[k].step[0] == 1 && v.data % 16 == 0;
    rows &= w.view[k].step[w.ndim - 1] == 1 && v.data % 16 == 0;
    for (int d = 0; d + 1 < w.ndim; ++d) rows &= w.view[k].step[d] % kVector == 0;
    same &= w.view[k].type == compute;
  }
  p.dense = dense;
  p.rows = rows;
  if (rows) p.eights = divisor(static_cast<uint32_t>(w.shape[w.ndim - 1] / kVector));
  const bool wide = same && dense;
  p.each = wide ? 16 / static_cast<uint32_t>(size_of(compute)) : kVector;
  p.gap = wide ? kThreads * 16 : 16;
  for (int d = 0; d < w.ndim; ++d) {  // the kernel expects the fastest dimension first
    const int from = w.ndim - 1 - d;
    p.size[d] = divisor(static_cast<uint32_t>(w.shape[from]));
    for (int k = 0; k < w.views; ++k) p.step[d][operand_of[k]] = static_cast<int32_t>(w.view[k].step[from]);
  }
  constexpr int64_t per_block = kThreads * kVector;
  stream.launch(kernel, {static_cast<uint32_t>((w.total + per_block - 1) / per_block)}, {kThreads}, 0, p);
}
void launch(const Stream& stream, const Function& kernel, DType compute, const Walk& w, PointwiseParams& p,
            const int* operand_of) {
  each_launchable(w, [&](const Walk& part) { launch_part(stream, kernel, compute, part, p, operand_of); });
}
}  // namespace

void run_formula(const Formula& f, DType common, const FormulaOperands& operands, const TensorImpl& out) {
  const DType compute = compute_type(common);
  Walk w(out);
  PointwiseParams p{};
  int operand_of[Walk::kMaxViews] = {0};
  std::copy_n(operands.members, kMaxMembers, p.members);
  for (int k = 0; k < f.inputs; ++k) {
    p.view[k + 1].number = operands.number[k];
    if (!operands.tensor[k]) continue;
    operand_of[w.views] = k + 1;
    w.add(*operands.tensor[k]);
  }
  if (w.total == 0) return;
  w.collapse();
  const Stream stream = stream_of(out.device);
  if (f.nonzero >= 0 && compute == DType::I64) p.faults = fault_sink(stream.gpu());
  if (compute == DType::I64)
    for (int k = 0; k < w.views; ++k)  // the bits are the same
      if (w.view[k].type == DType::U64) w.view[k].type = DType::I64;
  const bool is_unsigned = common == DType::U64 && f.loops.u64;
  launch(stream, kernels_of(f)[is_unsigned ? DType::U64 : compute], compute, w, p, operand_of);
}

void run_pointwise(const Call& c) {
  const Formula& f = formula_of(c);
  const TensorImpl& out = *c.out();
  const DType common = computed_type(f, c);
  if (is_complex(common)) return run_complex(c, f, common);
  FormulaOperands operands{};
  dispatch_compute(common, [&]<class T>() {
    T members[kMaxMembers];
    read_members(f, c.args, members);
    for (int k = 0; k < f.members; ++k) operands.members[k] = bits_of(members[k]);
    for (int k = 0; k < f.inputs; ++k) {
      const Value& v = c.args[k];
      if (v.tag == Tag::Tensor && v.tensor->device == out.device) operands.tensor[k] = v.tensor;
      else if (v.tag == Tag::Tensor) operands.number[k] = bits_of(host_number<T>(*v.tensor));
      else operands.number[k] = bits_of(number_operand<T>(f, v, k, common));
    }
  });
  run_formula(f, common, operands, out);
}

// complex64 as 8 bytes, if nothing is converted; otherwise part by part.
static void copy_complex(const TensorImpl& to, const TensorImpl& from) {
  if (to.dtype == from.dtype && to.contiguous && from.contiguous && to.numel == from.numel)
    return device_hooks.copy(to.data, to.device, from.data, from.device,
                             static_cast<size_t>(to.numel) * size_of(to.dtype), false);
  if (to.dtype == DType::C64 && from.dtype == DType::C64 && address(to) % 8 == 0 && address(from) % 8 == 0) {
    Tensor words = alias(to), source = alias(from);
    words->dtype = source->dtype = DType::F64;
    return copy(*words, *source);
  }
  if (!is_complex(to.dtype)) return copy(to, *part_of(from, 0));
  copy(*part_of(to, 0), is_complex(from.dtype) ? *part_of(from, 0) : from);
  if (is_complex(from.dtype)) copy(*part_of(to, 1), *part_of(from, 1));
  else fill(*part_of(to, 1), 0);
}

// Copies are the pointwise kernel of the identity.
void copy(const TensorImpl& to, const TensorImpl& from) {
  if (to.numel == 0) return;
  if (is_complex(to.dtype) || is_complex(from.dtype)) return copy_complex(to, from);
  if (to.dtype == from.dtype && to.contiguous && from.contiguous && to.numel == from.numel)
    return device_hooks.copy(to.data, to.device, from.data, from.device,
                             static_cast<size_t>(to.numel) * size_of(to.dtype), false);
  static const Kernels identity("copy", "Copy");
  // Equal dtypes are copied bitwise; otherwise values are converted.
  Walk w(to);
  w.add(from);
  w.collapse();
  // int64 does not hold the upper half of uint64.
  const bool through_float = from.dtype == DType::U64 && is_floating(to.dtype);
  DType compute = compute_type(through_float ? to.dtype : from.dtype);
  if (to.dtype == from.dtype) {  // use types of four and eight bytes that the kernel loads inline
    constexpr DType kBits[] = {DType::U8, DType::I16, DType::F32, DType::I64};
    const DType bits = kBits[std::countr_zero(size_of(to.dtype))];
    compute = bits == DType::F32 ? DType::F32 : DType::I64;
    w.view[0].type = w.view[1].type = bits;
    if (copy_rows(w, to.device) || transpose(w, to.device)) return;
  }
  PointwiseParams p{};
  const int operand_of[] = {0, 1};
  launch(stream_of(to.device), identity[compute], compute, w, p, operand_of);
}

void fill(const TensorImpl& to, Scalar value) {
  if (to.numel == 0) return;
  if (is_complex(to.dtype)) {
    const Complex<double> z = value.to_complex();
    fill(*part_of(to, 0), z.re);
    return fill(*part_of(to, 1), z.im);
  }
  static const Kernels identity("copy", "Copy");
  Walk w(to);
  w.collapse();
  PointwiseParams p{};
  const int operand_of[] = {0};
  const DType compute = compute_type(to.dtype);
  if (to.dtype == DType::Bool) value = value.to_double() != 0;
  dispatch_compute(to.dtype, [&]<class T>() { p.view[1].number = bits_of(value.to<T>()); });
  launch(stream_of(to.device), identity[compute], compute, w, p, operand_of);
}

}  // namespace strata::cuda
