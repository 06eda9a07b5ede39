#include "cpu/walk.h"

#include <algorithm>

namespace strata::cpu {

Walk::Walk(const TensorImpl& out) : ndim(out.ndim), total(out.numel) {
  for (int d = 0; d < ndim; ++d) shape[d] = out.shape[d];
  add(out);
}

void Walk::add(const TensorImpl& t) {
  View& v = view[views++];
  v.data = t.data, v.type = t.dtype;
  for (int d = 0; d < ndim; ++d) {
    const int own = d - (ndim - t.ndim);
    v.step[d] = own < 0 || t.shape[own] == 1 ? 0 : t.strides[own];
  }
}

void Walk::collapse() {
  int order[kMaxDims], count = 0;
  for (int d = 0; d < ndim; ++d)
    if (shape[d] != 1) order[count++] = d;
  std::stable_sort(order, order + count, [&](int a, int b) { return view[0].step[a] > view[0].step[b]; });

  const Walk from = *this;
  ndim = 0;
  for (int i = 0; i < count; ++i) {
    const int d = order[i];
    bool joins = ndim > 0;  // the dimension before this one continues it
    for (int k = 0; k < views && joins; ++k) joins = view[k].step[ndim - 1] == from.view[k].step[d] * from.shape[d];
    if (joins) shape[ndim - 1] *= from.shape[d];
    else shape[ndim++] = from.shape[d];
    for (int k = 0; k < views; ++k) view[k].step[ndim - 1] = from.view[k].step[d];
  }
  if (ndim == 0) {
    ndim = 1, shape[0] = 1;
    for (int k = 0; k < views; ++k) view[k].step[0] = 1;
  }
}

}  // namespace strata::cpu
