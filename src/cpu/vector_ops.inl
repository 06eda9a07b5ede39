// Loops over contiguous doubles, used by the factorizations; included inside a per-target namespace.
HWY_INLINE double dot(const double* x, const double* y, int64_t n) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), a);
    b = hn::MulAdd(hn::LoadU(d, x + i + lanes), hn::LoadU(d, y + i + lanes), b);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}
HWY_INLINE void add_scaled(double* y, double factor, const double* x, int64_t n) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(f, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  for (; i < n; ++i) y[i] += factor * x[i];
}
// (x, y) = (c x + s y, c y - s x)
HWY_INLINE void rotate(double* x, double* y, double c, double s, int64_t n) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vc = hn::Set(d, c), vs = hn::Set(d, s);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, y + i);
    hn::StoreU(hn::MulAdd(vc, a, hn::Mul(vs, b)), d, x + i);
    hn::StoreU(hn::NegMulAdd(vs, a, hn::Mul(vc, b)), d, y + i);
  }
  for (; i < n; ++i) {
    const double a = x[i], b = y[i];
    x[i] = c * a + s * b;
    y[i] = c * b - s * a;
  }
}
// The reflector I - tau v v^T that maps x (n elements `stride` apart) to (beta, 0, ...). x becomes (beta, v[1..]); v[0]
// is 1.
HWY_INLINE double make_reflector(double* x, int64_t stride, int64_t n) {
  double scale = 0, squares = 0;
  for (int64_t i = 1; i < n; ++i) scale = std::max(scale, std::abs(x[i * stride]));
  if (scale == 0) return 0;
  scale = std::max(scale, std::abs(x[0]));
  for (int64_t i = 0; i < n; ++i) squares += x[i * stride] / scale * (x[i * stride] / scale);
  const double alpha = x[0], beta = -std::copysign(scale * std::sqrt(squares), alpha);
  for (int64_t i = 1; i < n; ++i) x[i * stride] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}
// Rows of a (m x n, `ld` apart) -= tau v (v^T a); v[0] is treated as 1. w is scratch of n.
HWY_INLINE void reflect_rows(const double* v, int64_t stride, double tau, double* a, int64_t ld, int64_t m, int64_t n,
                             double* w) {
  if (tau == 0 || n == 0) return;
  std::copy_n(a, n, w);
  for (int64_t i = 1; i < m; ++i) add_scaled(w, v[i * stride], a + i * ld, n);
  add_scaled(a, -tau, w, n);
  for (int64_t i = 1; i < m; ++i) add_scaled(a + i * ld, -tau * v[i * stride], w, n);
}
