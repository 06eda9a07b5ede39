// Kernels of the matrix-product ops, which share one plan of sizes and strides.
#pragma once
#include "cpu/linalg/gemm.h"
#include "cpu/onednn/api.h"
#include "record/op.h"

namespace strata::cpu {

// c = a b by matmul's rules, for any ranks; c has the resulting shape. Batch dimensions are merged if strides allow,
// and folded into m if b has none.
Gemm plan_product(const TensorImpl& a, const TensorImpl& b, const TensorImpl& c);
// Runs g on the values of a, b and c, of any dtype (all equal); bias, if any, is one contiguous row added to each row
// of c.
void run_product(Gemm g, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c,
                 const TensorImpl* bias = nullptr);

// Null: oneDNN's product of these sizes is faster than ours. Otherwise the reason.
const char* product_onednn_fits(const Gemm& g, DType dtype);

// The weight of a linear layer in the order that oneDNN prefers for product m, if it is worth keeping; null otherwise.
Ref<Storage> packed_weight(const onednn::Matmul& m, const TensorImpl& weight);

// Kernel lists for ops called (a, b) and (input, a, b, …beta, alpha) and (input, weight, bias).
void add_product_kernels(OpRecord& op);
void add_scaled_product_kernels(OpRecord& op);
void add_linear_kernels(OpRecord& op);

}  // namespace strata::cpu
