#include "cuda/linalg/realign.h"

#include <algorithm>

#include "cuda/common/tensors.h"
#include "cuda/linalg/realign_params.h"

namespace strata::cuda {
namespace {

// Elements: with rows of whole 128-byte lines, a row of a tile touches one line of the cache, not two.
constexpr int64_t kPitch = 64;
constexpr int64_t kMostBatches = 65535;

RealignJob realign(GemmLayout& l, Factor& f, int64_t (&strides)[GemmLayout::kBatchDims], int64_t size,
                   Workspace& space) {
  RealignJob job{};
  if (rows_are_aligned(f.address, f.ld, strides)) return job;
  job.rows = f.along_k ? size : l.k;
  job.columns = f.along_k ? l.k : size;
  job.source = f.address;
  job.source_ld = f.ld;
  job.target_ld = ceil_div(job.columns, kPitch) * kPitch;
  // A matrix that all batches share is copied once.
  job.outer = strides[0] ? l.batch[0] : 1;
  job.inner = strides[1] ? l.batch[1] : 1;
  std::copy_n(strides, 2, job.source_b);
  const Tensor copy = space.take(Shape(std::array{job.outer, job.inner, job.rows, job.target_ld}), DType::I16);
  job.target = address(*copy);
  f.ld = job.target_ld;
  if (strides[1]) strides[1] = job.rows * job.target_ld;
  if (strides[0]) strides[0] = job.inner * job.rows * job.target_ld;
  return job;
}

int64_t blocks_of(const RealignJob& job) {
  return ceil_div(ceil_div(job.columns, 8) * job.rows, kRealignThreads * kRealignBatch);
}
}  // namespace

bool rows_are_aligned(uint64_t address, int64_t ld, const int64_t (&batch_strides)[GemmLayout::kBatchDims]) {
  return address % 16 == 0 && ld % 8 == 0 && batch_strides[0] % 8 == 0 && batch_strides[1] % 8 == 0;
}

void realign_factors(GemmLayout& l, Workspace space, const Stream* stream) {
  static const Function kernel{"realign", "realign_rows"};
  const RealignJob jobs[] = {realign(l, l.a, l.a_b, l.m, space), realign(l, l.b, l.b_b, l.n, space)};
  if (!stream) return;
  if (jobs[0].rows) l.a.address = jobs[0].target;
  if (jobs[1].rows) l.b.address = jobs[1].target;
  const int64_t blocks = std::max(blocks_of(jobs[0]), blocks_of(jobs[1]));
  if (blocks == 0) return;
  const int64_t batches = std::max(jobs[0].inner * jobs[0].outer, jobs[1].inner * jobs[1].outer);
  stream->launch(kernel, {static_cast<uint32_t>(blocks), 2, static_cast<uint32_t>(std::min(batches, kMostBatches))},
                 {kRealignThreads}, 0, jobs[0], jobs[1]);
}

}  // namespace strata::cuda
