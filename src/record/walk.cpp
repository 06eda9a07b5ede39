#include "record/walk.h"

#include <algorithm>

namespace strata {

Walk::Walk(const TensorImpl& out) : ndim(out.ndim), total(out.numel) {
  for (int d = 0; d < ndim; ++d) shape[d] = out.shape[d];
  add(out);
}

void Walk::add(const TensorImpl& t) {
  View& v = view[views++];
  v.data = t.data;
  v.type = t.dtype;
  plain &= t.contiguous && t.numel == total;
  for (int d = 0; d < ndim; ++d) {
    const int own = d - (ndim - t.ndim);
    v.step[d] = own < 0 || t.shape[own] == 1 ? 0 : t.strides[own];
  }
}

void Walk::collapse() {
  if (plain) {
    ndim = 1;
    shape[0] = total;
    for (int k = 0; k < views; ++k) view[k].step[0] = 1;
    return;
  }
  // Insertion sort: stable, and does not allocate.
  int order[kMaxDims], count = 0;
  for (int d = 0; d < ndim; ++d) {
    if (shape[d] == 1) continue;
    int at = count++;
    for (; at > 0 && view[0].step[order[at - 1]] < view[0].step[d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  int64_t sizes[kMaxDims], steps[kMaxViews][kMaxDims];
  int joined = 0;
  for (int i = 0; i < count; ++i) {
    const int d = order[i];
    bool joins = joined > 0;  // whether the previous dimension continues into this one
    for (int k = 0; k < views && joins; ++k) joins = steps[k][joined - 1] == view[k].step[d] * shape[d];
    if (joins) sizes[joined - 1] *= shape[d];
    else sizes[joined++] = shape[d];
    for (int k = 0; k < views; ++k) steps[k][joined - 1] = view[k].step[d];
  }
  if (joined == 0) {
    joined = 1;
    sizes[0] = 1;
    for (int k = 0; k < views; ++k) steps[k][0] = 1;
  }
  ndim = joined;
  std::copy_n(sizes, joined, shape);
  for (int k = 0; k < views; ++k) std::copy_n(steps[k], joined, view[k].step);
}

Walk Walk::part(int d, int64_t begin, int64_t size) const {
  Walk p(*this);
  p.total = total / shape[d] * size;
  p.shape[d] = size;
  for (int k = 0; k < views; ++k)
    p.view[k].data += begin * view[k].step[d] * static_cast<int64_t>(size_of(view[k].type));
  return p;
}

}  // namespace strata
