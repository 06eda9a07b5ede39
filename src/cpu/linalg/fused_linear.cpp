#include "cpu/linalg/fused_linear.h"

#include "cpu/linalg/products.h"
#include "cpu/nn/byte_scales.h"
#include "cpu/onednn_after.h"
#include "cpu/onednn_loader.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

// [m, k] times the transposed weight [n, k], with contiguous rows of the result.
onednn::Matmul describe_linear(const TensorImpl& input, const TensorImpl& weight, bool bias, const TensorImpl& out,
                               const LinearTail& tail) {
  const int64_t n = weight.shape[0], k = weight.shape[1], m = out.numel / n;
  onednn::Matmul p;
  p.bias = bias;
  const auto type_of = [&](DType t) { return t == DType::BF16 ? onednn::Type::BF16 : onednn_byte_type(t); };
  p.a_type = type_of(input.dtype);
  p.b_type = type_of(weight.dtype);
  p.c_type = type_of(out.dtype);
  const auto matrix = [](int64_t* size, int64_t* stride, int64_t rows, int64_t columns) {
    size[0] = rows;
    size[1] = columns;
    stride[0] = columns;
    stride[1] = 1;
  };
  matrix(p.a_size, p.a_stride, m, k);
  matrix(p.c_size, p.c_stride, m, n);
  p.b_size[0] = k;
  p.b_size[1] = n;
  p.b_stride[0] = weight.strides[1];
  p.b_stride[1] = weight.strides[0];
  if (k == 1 || n == 1) {  // a dimension of one element may have any stride
    p.b_stride[0] = n == 1 ? 1 : n;
    p.b_stride[1] = n == 1 ? k : 1;
  }
  const DType* other = tail.other ? &tail.other->dtype : nullptr;
  p.after = tail.bytes ? onednn_after_bytes(tail.epilogue, *tail.bytes, input.dtype, out.dtype, other)
                       : onednn_after(tail.epilogue, other != nullptr);
  return p;
}
}  // namespace

const char* linear_after_fits(const Epilogue& e) { return onednn_after_fits(e); }

const char* linear_onednn_ready(const TensorImpl& input, const TensorImpl& weight, const TensorImpl* bias,
                                const TensorImpl& out, const LinearTail& tail) {
  if (!onednn_table()) return onednn_missing();
  if (out.numel == 0 || weight.numel == 0) return "a size is 0";
  if (!weight.is_dense()) return "the weight is not dense";
  if (tail.bytes) {
    if (const char* why = onednn_after_fits_bytes(tail.epilogue, out.dtype)) return why;
  } else {
    const Tensor turned = shape_only(weight);
    std::swap(turned->shape[0], turned->shape[1]);
    std::swap(turned->strides[0], turned->strides[1]);
    turned->update_contiguous();
    const Tensor rows = shape_only(input), result = shape_only(out);
    rows->set_contiguous_strides();
    result->set_contiguous_strides();
    if (const char* why = product_onednn_fits(plan_product(*rows, *turned, *result), out.dtype)) return why;
    if (bias && bias->numel != weight.shape[0]) return "one bias for all columns";
  }
  return onednn_table()->matmul_ready(describe_linear(input, weight, bias != nullptr, out, tail));
}

void linear_onednn(const TensorImpl& input, const TensorImpl& weight, const TensorImpl* bias, const TensorImpl& out,
                   const LinearTail& tail) {
  const onednn::Table& table = *onednn_table();
  onednn::Matmul m = describe_linear(input, weight, bias != nullptr, out, tail);
  const Tensor x = staged(input, input.dtype), row = bias ? staged(*bias, bias->dtype) : Tensor(),
               other = tail.other ? staged(*tail.other, tail.other->dtype) : Tensor();
  const Tensor y = out.contiguous ? borrow(out) : make_tensor(out.sizes(), out.dtype);
  const ByteArguments bytes(tail.bytes, tail.weight_scales, weight.shape[0]);
  onednn::Extra extra = bytes.extra;
  extra.other = other ? other->data : nullptr;
  const Ref<Storage> packed = packed_weight(m, weight);
  m.packed = static_cast<bool>(packed);
  if (!table.matmul(m, x->data, packed ? packed->data : weight.data, row ? row->data : nullptr, y->data, extra))
    onednn_failed("linear");
  if (y.get() != &out) copy_values(out, *y);
}

}  // namespace strata::cpu
