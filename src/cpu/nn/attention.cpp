// The reference: one query after the other, all weights of a query at once.
#include "cpu/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace strata::cpu {
namespace {

// The weights of query i, and the logarithm of their normalizer. `mask` is the query's row, or null.
template <class T>
T weights_of(const Attention& a, const T* q, const T* k, int64_t k_row, const T* mask, int64_t i, std::vector<T>& w) {
  const int64_t from = a.first_column(i), n = a.end_column(i);
  T most = -std::numeric_limits<T>::infinity(), sum = 0;
  w.assign(static_cast<size_t>(a.columns), T(0));
  for (int64_t j = from; j < n; ++j) {
    T s = 0;
    for (int64_t e = 0; e < a.width; ++e) s += q[e] * k[j * k_row + e];
    w[static_cast<size_t>(j)] = s * static_cast<T>(a.scale) + (mask ? mask[j] : 0);
    most = std::max(most, w[static_cast<size_t>(j)]);
  }
  if (most == -std::numeric_limits<T>::infinity()) {  // nothing to attend to
    std::fill(w.begin(), w.end(), T(0));
    return most;
  }
  for (int64_t j = from; j < n; ++j) sum += w[static_cast<size_t>(j)] = std::exp(w[static_cast<size_t>(j)] - most);
  for (T& x : w) x /= sum;
  return most + std::log(sum);
}

template <class T> const T* row_of(const Attention& a, const Matrices<const T>& m, int64_t batch, int64_t row) {
  return m.data ? m.at(a, batch) + row * m.row : nullptr;
}
}  // namespace

template <class T> void attention_forward_reference(const Attention& a, const AttentionForward<T>& p) {
  std::vector<T> w;
  for (int64_t b = 0; b < a.batches(); ++b)
    for (int64_t i = 0; i < a.rows; ++i) {
      const T log_sum = weights_of(a, p.q.at(a, b) + i * p.q.row, p.k.at(a, b), p.k.row, row_of(a, p.mask, b, i), i, w);
      if (p.log_sums) p.log_sums[b * a.log_step + i] = log_sum;
      for (int64_t e = 0; e < a.value_width; ++e) {
        T sum = 0;
        for (int64_t j = 0; j < a.columns; ++j) sum += w[static_cast<size_t>(j)] * p.v.at(a, b)[j * p.v.row + e];
        p.out.at(a, b)[i * p.out.row + e] = sum;
      }
    }
}

template <class T> void attention_backward_reference(const Attention& a, const AttentionBackward<T>& p) {
  std::vector<T> w;
  for (int64_t b = 0; b < a.batches(); ++b) {
    const T *k = p.k.at(a, b), *v = p.v.at(a, b);
    T *gk = p.grad_k.at(a, b), *gv = p.grad_v.at(a, b);
    for (int64_t j = 0; j < a.columns; ++j) {
      std::fill_n(gk + j * p.grad_k.row, a.width, T(0));
      std::fill_n(gv + j * p.grad_v.row, a.value_width, T(0));
    }
    for (int64_t i = 0; i < a.rows; ++i) {
      const T *q = p.q.at(a, b) + i * p.q.row, *g = p.grad.at(a, b) + i * p.grad.row;
      T* gq = p.grad_q.at(a, b) + i * p.grad_q.row;
      weights_of(a, q, k, p.k.row, row_of(a, p.mask, b, i), i, w);
      std::vector<T> slope(w.size());
      T mean = 0;
      for (int64_t j = 0; j < a.columns; ++j) {
        const T weight = w[static_cast<size_t>(j)];
        T s = 0;
        for (int64_t e = 0; e < a.value_width; ++e) {
          s += g[e] * v[j * p.v.row + e];
          gv[j * p.grad_v.row + e] += weight * g[e];
        }
        slope[static_cast<size_t>(j)] = s;
        mean += weight * s;
      }
      std::fill_n(gq, a.width, T(0));
      for (int64_t j = 0; j < a.columns; ++j) {
        const T s = w[static_cast<size_t>(j)] * (slope[static_cast<size_t>(j)] - mean) * static_cast<T>(a.scale);
        for (int64_t e = 0; e < a.width; ++e) {
          gq[e] += s * k[j * p.k.row + e];
          gk[j * p.grad_k.row + e] += s * q[e];
        }
      }
    }
  }
}

template void attention_forward_reference(const Attention&, const AttentionForward<float>&);
template void attention_forward_reference(const Attention&, const AttentionForward<double>&);
template void attention_backward_reference(const Attention&, const AttentionBackward<float>&);
template void attention_backward_reference(const Attention&, const AttentionBackward<double>&);

}  // namespace strata::cpu
