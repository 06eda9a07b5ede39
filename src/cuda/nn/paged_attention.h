// Attention of a few queries of each sequence with keys and values in pages, on a device.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

// Shapes are checked: see _paged_attention.
struct PagedAttentionCall {
  const TensorImpl &q, &k, &v, &table, &contexts, &out;
  double scale;
  int64_t window;  // negative: no limit
};

const char* plan_paged_attention(const PagedAttentionCall& a, Plan& plan);
void run_paged_attention(const PagedAttentionCall& a, const Call& c, const Plan& plan);

}  // namespace strata::cuda
