#include "cuda/pointwise/where.h"

#include <bit>

#include "cuda/common/tensors.h"
#include "cuda/pointwise/where_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

const char* where_ready(const Call& c) {
  const TensorImpl& out = *c.out();
  if (size_of(out.dtype) > 8) return "for elements of up to 8 bytes";
  for (uint32_t i = 0; i < 3; ++i) {
    if (!c.args.is_tensor(i)) return "an operand is a number";
    const TensorImpl& t = c.args.tensor(i);
    if (t.dtype != (i == 0 ? DType::Bool : out.dtype)) return "an operand is converted";
    if (t.device != out.device || !t.contiguous || !t.same_shape(out)) return "an operand is broadcast or strided";
    if (address(t) % 16 != 0) return "an operand does not start at a multiple of 16 bytes";
  }
  return out.contiguous && address(out) % 16 == 0 ? nullptr : "the result has strides or is not aligned";
}

void run_where(const Call& c) {
  static const Function kernels[] = {
    {"where", "where_1"}, {"where", "where_2"}, {"where", "where_4"}, {"where", "where_8"}};
  const TensorImpl& out = *c.out();
  if (out.numel == 0) return;
  const auto size = static_cast<int64_t>(size_of(out.dtype));
  const WhereParams p{address(c.args.tensor(0)), address(c.args.tensor(1)), address(c.args.tensor(2)), address(out),
                      out.numel};
  stream_of(out.device)
    .launch(kernels[std::countr_zero(static_cast<uint64_t>(size))],
            {blocks_for(out.numel, kWhereThreads * (16 / size))}, {kWhereThreads}, 0, p);
}

}  // namespace strata::cuda
