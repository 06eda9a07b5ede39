// softmax(scale q kᵀ) v and its gradients, block by block: the full matrix of weights is never stored.
#pragma once
#include <algorithm>
#include <cstdint>

namespace strata::cpu {

struct Attention {
  static constexpr int kMaxBatch = 8;
  int batch_dims = 0;
  int64_t batch[kMaxBatch];
  int64_t rows, columns, width, value_width;  // queries, keys, features of queries and keys, features of values
  // Row i attends to the columns from i + diagonal - left to i + diagonal + right.
  static constexpr int64_t kFar = int64_t{1} << 60;  // no limit
  int64_t diagonal = 0, left = kFar, right = kFar;
  double scale;
  int64_t log_step;  // from the first logarithm of an entry to that of the next one
  int64_t first_column(int64_t row) const { return std::max<int64_t>(row + diagonal - left, 0); }
  int64_t end_column(int64_t row) const { return std::clamp<int64_t>(row + diagonal + right + 1, 0, columns); }
  int64_t batches() const {
    int64_t n = 1;
    for (int d = 0; d < batch_dims; ++d) n *= batch[d];
    return n;
  }
};
// A matrix per batch entry; its rows are `row` elements apart, their elements contiguous.
template <class T> struct Matrices {
  T* data = nullptr;
  int64_t row = 0, step[Attention::kMaxBatch] = {};
  T* at(const Attention& a, int64_t index) const {
    T* p = data;
    for (int d = a.batch_dims; d-- > 0; index /= a.batch[d]) p += index % a.batch[d] * step[d];
    return p;
  }
};

template <class T> struct AttentionForward {
  Matrices<const T> q, k, v, mask;  // mask: only the reference adds it to the scores; its data may be null
  Matrices<T> out;
  T* log_sums;  // of each row's sum of exponentials, for the gradient; -inf if it attends to nothing; may be null
};
template <class T> struct AttentionBackward {
  Matrices<const T> grad, q, k, v, out, mask;
  const T* log_sums;
  Matrices<T> grad_q, grad_k, grad_v;
};

template <class T> void attention_forward(const Attention& a, const AttentionForward<T>& p);
template <class T> void attention_backward(const Attention& a, const AttentionBackward<T>& p);
template <class T> void attention_forward_reference(const Attention& a, const AttentionForward<T>& p);
template <class T> void attention_backward_reference(const Attention& a, const AttentionBackward<T>& p);

}  // namespace strata::cpu
