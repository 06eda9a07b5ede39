// Pooling over windows of up to three spatial dimensions, for planes of one image and channel each.
#pragma once
#include <cstdint>
#include <vector>

namespace strata::cpu {

struct Window {  // along one dimension: inputs lo, lo + step, … below hi
  int64_t lo, hi, step;
  int64_t full;  // number of inputs, including padding
};
struct Pooling {
  int64_t planes = 1;
  int64_t in[3] = {1, 1, 1};       // right-aligned
  std::vector<Window> windows[3];  // one per output index
  bool include_pad = true;
  int64_t divisor = 0;  // 0: the number of inputs
  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return static_cast<int64_t>(windows[0].size() * windows[1].size() * windows[2].size()); }
};

// The maximum of each window and its index within the plane; NaN wins.
template <class T> void max_windows(const Pooling& p, const T* x, T* y, int64_t* index);
template <class T> void mean_windows(const Pooling& p, const T* x, T* y);
template <class T> void mean_windows_backward(const Pooling& p, const T* g, T* out);
// Planes of `in` values, each with `out` indices into them.
template <class T> void plane_gather(int64_t planes, int64_t in, int64_t out, const T* x, const int64_t* index, T* y);
template <class T>
void plane_scatter(int64_t planes, int64_t in, int64_t out, const T* values, const int64_t* index, T* x, bool add);

}  // namespace strata::cpu
