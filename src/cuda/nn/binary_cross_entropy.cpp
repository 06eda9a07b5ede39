#include "cuda/nn/binary_cross_entropy.h"

#include "cuda/nn/binary_cross_entropy_params.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {

void binary_cross_entropy(const TensorImpl& x, const TensorImpl& target, const TensorImpl& out) {
  static const Function kernels[] = {{"binary_cross_entropy", "binary_cross_entropy_f32"},
                                     {"binary_cross_entropy", "binary_cross_entropy_f64"}};
  if (out.numel == 0) return;
  BinaryCrossEntropyParams p{};
  p.x = reinterpret_cast<uint64_t>(x.data);
  p.target = reinterpret_cast<uint64_t>(target.data);
  p.out = reinterpret_cast<uint64_t>(out.data);
  p.type = static_cast<int32_t>(out.dtype);
  p.count = out.numel;
  const Stream stream = stream_of(out.device);
  p.faults = fault_sink(stream.gpu());
  stream.launch(kernels[out.dtype == DType::F64], {static_cast<uint32_t>((out.numel + 255) / 256)}, {256}, 0, p);
}

}  // namespace strata::cuda
