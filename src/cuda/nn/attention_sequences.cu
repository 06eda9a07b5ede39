// Checks the starts of sequences of different lengths: they begin with 0, do not decrease, end with the number of rows, and
// no sequence is longer than the longest one that the caller named.
#include "cuda/common/fault.cuh"
#include "cuda/nn/attention_params.h"

namespace strata::cuda::attention {

extern "C" __global__ void __launch_bounds__(256) check_sequences(SequenceParams p) {
  const int* starts = reinterpret_cast<const int*>(p.starts);
  for (int i = int(threadIdx.x); i <= p.sequences; i += 256) {
    const int64_t at = starts[i], previous = i == 0 ? 0 : starts[i - 1];
    const int64_t least = i == p.sequences ? p.total : previous;
    const int64_t most = i == 0 ? 0 : min(int64_t(p.total), previous + p.longest);
    if (at < least || at > most) report(p.faults, FaultCode::Start, at, at < least ? least : most);
  }
}

}  // namespace strata::cuda::attention
