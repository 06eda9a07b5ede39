// Loops over contiguous floats or doubles, used by the factorizations; included inside a per-target namespace.
template <class T> HWY_INLINE T dot(const T* x, const T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), a);
    b = hn::MulAdd(hn::LoadU(d, x + i + lanes), hn::LoadU(d, y + i + lanes), b);
  }
  if (i + lanes <= n) {
    a = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), a);
    i += lanes;
  }
  if (i == 0) {  // elements of a short vector may have just been stored one by one, which delays a masked load
    T total = 0;
    for (; i < n; ++i) total += x[i] * y[i];
    return total;
  }
  const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
  b = hn::MulAdd(hn::MaskedLoad(rest, d, x + i), hn::MaskedLoad(rest, d, y + i), b);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}
template <class T> HWY_INLINE void divide(T* x, T by, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Div(hn::LoadU(d, x + i), hn::Set(d, by)), d, x + i);
  for (; i < n; ++i) x[i] /= by;
}
// The position of the first of the numbers with the largest magnitude; NaN only if it is the very first.
template <class T> HWY_INLINE int64_t largest(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (x[0] != x[0]) return 0;
  auto most = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::Abs(hn::LoadU(d, x + i));
    most = hn::IfThenElse(hn::Gt(v, most), v, most);
  }
  T size = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < n; ++i) size = std::max(size, std::abs(x[i]));
  for (i = 0; i < n && std::abs(x[i]) != size; ++i) {}
  return i < n ? i : 0;
}
// Rows of a block are often shorter than a vector, and then one masked vector. Very short ones are not: a masked store delays
// a load of the same elements that follows closely.
constexpr int64_t kFewElements = 4;
template <class T> HWY_INLINE void add_scaled(T* y, T factor, const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(f, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  if (n - i <= kFewElements) {
    for (; i < n; ++i) y[i] += factor * x[i];
    return;
  }
  const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
  hn::BlendedStore(hn::MulAdd(f, hn::MaskedLoad(rest, d, x + i), hn::MaskedLoad(rest, d, y + i)), rest, d, y + i);
}
// y += f x + g z
template <class T> HWY_INLINE void add_two_scaled(T* y, T f, const T* x, T g, const T* z, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vf = hn::Set(d, f), vg = hn::Set(d, g);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto sum = hn::MulAdd(vf, hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    hn::StoreU(hn::MulAdd(vg, hn::LoadU(d, z + i), sum), d, y + i);
  }
  if (n - i <= kFewElements) {
    for (; i < n; ++i) y[i] += f * x[i] + g * z[i];
    return;
  }
  const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
  const auto sum = hn::MulAdd(vf, hn::MaskedLoad(rest, d, x + i), hn::MaskedLoad(rest, d, y + i));
  hn::BlendedStore(hn::MulAdd(vg, hn::MaskedLoad(rest, d, z + i), sum), rest, d, y + i);
}
// y -= the sum of factors[i * step] times row i, for `count` rows of n elements. The sums stay in registers.
template <class T>
HWY_INLINE void subtract_rows(T* y, const T* factors, int64_t step, const T* rows, int64_t ld, int64_t count,
                              int64_t n) {
  if (count == 0) return;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) {
    auto a = hn::LoadU(d, y + j), b = hn::LoadU(d, y + j + lanes), c = hn::LoadU(d, y + j + 2 * lanes),
         e = hn::LoadU(d, y + j + 3 * lanes);
    for (int64_t i = 0; i < count; ++i) {
      const auto f = hn::Set(d, factors[i * step]);
      const T* row = rows + i * ld + j;
      a = hn::NegMulAdd(f, hn::LoadU(d, row), a);
      b = hn::NegMulAdd(f, hn::LoadU(d, row + lanes), b);
      c = hn::NegMulAdd(f, hn::LoadU(d, row + 2 * lanes), c);
      e = hn::NegMulAdd(f, hn::LoadU(d, row + 3 * lanes), e);
    }
    hn::StoreU(a, d, y + j);
    hn::StoreU(b, d, y + j + lanes);
    hn::StoreU(c, d, y + j + 2 * lanes);
    hn::StoreU(e, d, y + j + 3 * lanes);
  }
  for (; j + lanes <= n; j += lanes) {
    auto a = hn::LoadU(d, y + j);
    for (int64_t i = 0; i < count; ++i)
      a = hn::NegMulAdd(hn::Set(d, factors[i * step]), hn::LoadU(d, rows + i * ld + j), a);
    hn::StoreU(a, d, y + j);
  }
  if (n - j <= kFewElements) {
    for (; j < n; ++j) {
      T v = y[j];
      for (int64_t i = 0; i < count; ++i) v -= factors[i * step] * rows[i * ld + j];
      y[j] = v;
    }
    return;
  }
  const auto some = hn::FirstN(d, static_cast<size_t>(n - j));
  auto a = hn::MaskedLoad(some, d, y + j);
  for (int64_t i = 0; i < count; ++i)
    a = hn::NegMulAdd(hn::Set(d, factors[i * step]), hn::MaskedLoad(some, d, rows + i * ld + j), a);
  hn::BlendedStore(a, some, d, y + j);
}
// (x, y) = (c x + s y, c y - s x)
template <class T> HWY_INLINE void rotate(T* x, T* y, T c, T s, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vc = hn::Set(d, c), vs = hn::Set(d, s);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, y + i);
    hn::StoreU(hn::MulAdd(vc, a, hn::Mul(vs, b)), d, x + i);
    hn::StoreU(hn::NegMulAdd(vs, a, hn::Mul(vc, b)), d, y + i);
  }
  if (n - i <= kFewElements) {
    for (; i < n; ++i) {
      const T a = x[i], b = y[i];
      x[i] = c * a + s * b;
      y[i] = c * b - s * a;
    }
    return;
  }
  const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
  const auto a = hn::MaskedLoad(rest, d, x + i), b = hn::MaskedLoad(rest, d, y + i);
  hn::BlendedStore(hn::MulAdd(vc, a, hn::Mul(vs, b)), rest, d, x + i);
  hn::BlendedStore(hn::NegMulAdd(vs, a, hn::Mul(vc, b)), rest, d, y + i);
}
// The reflector I - tau v v^T that maps x (n elements `stride` apart) to (beta, 0, ...). x becomes (beta, v[1..]); v[0]
// is 1.
template <class T> HWY_INLINE T make_reflector(T* x, int64_t stride, int64_t n) {
  double scale = 1, below = 0;
  if constexpr (sizeof(T) == 8) {  // squares of floats neither overflow nor underflow in double
    scale = 0;
    for (int64_t i = 0; i < n; ++i) scale = std::max(scale, std::abs(x[i * stride]));
    if (scale == 0) return 0;
  }
  const double by = 1 / scale;
  double more = 0;  // a second sum, which does not wait for the first
  int64_t k = 1;
  for (; k + 1 < n; k += 2) {
    const double p = static_cast<double>(x[k * stride]) * by, q = static_cast<double>(x[(k + 1) * stride]) * by;
    below += p * p;
    more += q * q;
  }
  if (k < n) below += static_cast<double>(x[k * stride]) * by * (static_cast<double>(x[k * stride]) * by);
  below += more;
  if (below == 0) return 0;
  const double alpha = x[0], head = alpha * by;
  const double beta = -std::copysign(scale * std::sqrt(head * head + below), alpha), inverse = 1 / (alpha - beta);
  if (std::isfinite(inverse)) {
    for (int64_t i = 1; i < n; ++i) x[i * stride] = static_cast<T>(static_cast<double>(x[i * stride]) * inverse);
  } else {
    for (int64_t i = 1; i < n; ++i) x[i * stride] = static_cast<T>(static_cast<double>(x[i * stride]) / (alpha - beta));
  }
  x[0] = static_cast<T>(beta);
  return static_cast<T>((beta - alpha) / beta);
}
// Rows of a (m x n, `ld` apart) -= tau v (v^T a); v[0] is treated as 1. `scratch` has m elements: v without gaps. The sums of
// some columns stay in registers.
template <class T>
HWY_INLINE void reflect_rows(const T* v, int64_t stride, T tau, T* a, int64_t ld, int64_t m, int64_t n, T* scratch) {
  if (tau == 0 || n == 0) return;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  scratch[0] = 1;
  for (int64_t i = 1; i < m; ++i) scratch[i] = v[i * stride];
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    auto first = hn::Zero(d), second = first;
    for (int64_t i = 0; i < m; ++i) {
      const auto f = hn::Set(d, scratch[i]);
      first = hn::MulAdd(f, hn::LoadU(d, a + i * ld + j), first);
      second = hn::MulAdd(f, hn::LoadU(d, a + i * ld + j + lanes), second);
    }
    first = hn::Mul(first, hn::Set(d, tau));
    second = hn::Mul(second, hn::Set(d, tau));
    for (int64_t i = 0; i < m; ++i) {
      const auto f = hn::Set(d, scratch[i]);
      T* row = a + i * ld + j;
      hn::StoreU(hn::NegMulAdd(f, first, hn::LoadU(d, row)), d, row);
      hn::StoreU(hn::NegMulAdd(f, second, hn::LoadU(d, row + lanes)), d, row + lanes);
    }
  }
  for (; j < n; j += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(n - j));
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < m; ++i)
      sum = hn::MulAdd(hn::Set(d, scratch[i]), hn::MaskedLoad(some, d, a + i * ld + j), sum);
    sum = hn::Mul(sum, hn::Set(d, tau));
    for (int64_t i = 0; i < m; ++i) {
      T* row = a + i * ld + j;
      hn::BlendedStore(hn::NegMulAdd(hn::Set(d, scratch[i]), sum, hn::MaskedLoad(some, d, row)), some, d, row);
    }
  }
}
