// Packed products, included inside a per-target namespace after gemm_tiles.inl. Blocks of a (kHeight x kDepth) and of b
// (kDepth x kAcross) are copied into the order in which the register tiles read them.
constexpr int64_t kDepth = 256, kHeight = 20 * kRows;  // packed a is read from the L2 cache,
constexpr int64_t kAcross = 1024;                      // packed b from the L3 cache
constexpr int64_t kFewColumns = 128;                   // a is read in place
constexpr int64_t kPackCost = 8;                       // multiplications that take as long as packing an element

// Copies groups of kGroup rows, so that the kGroup elements of a column are adjacent: to[group][column][row in group].
// The elements beyond the last row are not written.
template <int kGroup, class T>
void pack(const T* from, int64_t down, int64_t along, int64_t rows, int64_t columns, T* to) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = rows / kGroup * kGroup;
  HWY_ALIGN T quads[4 * hn::MaxLanes(d)];
  if (down == 1)  // by columns, so that memory is read in order
    for (int64_t p = 0; p < columns; ++p)
      for (int64_t i = 0; i < whole; i += kGroup)
        std::copy_n(from + p * along + i, kGroup, to + i * columns + p * kGroup);
  for (int64_t i = 0; i < rows; i += kGroup, to += columns * kGroup) {
    if (down == 1 && i < whole) continue;
    const T* group = from + i * down;
    int64_t p = 0;
    // Four rows at a time; the last four may overlap those before.
    if (along == 1 && i < whole)
      for (; p + lanes <= columns; p += lanes)
        for (int y = 0; y < kGroup; y += 4) {
          const int first = std::min(y, kGroup - 4);
          const T* r = group + first * down + p;
          hn::StoreInterleaved4(hn::LoadU(d, r), hn::LoadU(d, r + down), hn::LoadU(d, r + 2 * down),
                                hn::LoadU(d, r + 3 * down), d, quads);
          for (int64_t q = 0; q < lanes; ++q) std::copy_n(quads + 4 * q, 4, to + (p + q) * kGroup + first);
        }
    for (int64_t y = 0; y < std::min<int64_t>(kGroup, rows - i); ++y)
      for (int64_t q = p; q < columns; ++q) to[q * kGroup + y] = group[y * down + q * along];
  }
}

// The same sums as micro, for a whole tile of packed factors: constant strides, and the next part of a is prefetched.
template <class T>
HWY_INLINE void packed_tile(int64_t k, const T* a, const T* b, T* c, int64_t c_m, T alpha, bool add) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = hn::MaxLanes(d), kAhead = 16 * kRows;
  hn::Vec<decltype(d)> acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(d);
    __builtin_prefetch(c + i * c_m);
    __builtin_prefetch(c + i * c_m + kVectors * kLanes - 1);
  }
  for (int64_t p = 0; p < k; ++p, a += kRows, b += kVectors * kLanes) {
    __builtin_prefetch(a + kAhead);
    hn::Vec<decltype(d)> bv[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) bv[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const auto x = hn::Set(d, a[i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(x, bv[v], acc[i][v]);
    }
  }
  const auto scale = hn::Set(d, alpha);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* out = c + i * c_m + v * kLanes;
      const auto value = hn::Mul(acc[i][v], scale);
      hn::StoreU(add ? hn::Add(value, hn::LoadU(d, out)) : value, d, out);
    }
}

// A part of c, of one thread.
struct Part {
  int64_t top, rows, left, columns;
};

template <class T> void product_of_part(const Gemm& g, const Part& part, const T* a, const T* b, T* c, T* space) {
  constexpr int kWidth = kVectors * static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));
  const bool in_place = g.a_k == 1 && part.columns <= kFewColumns;  // packing a costs more than it saves
  T* packed_a = space;
  T* packed_b = space + kHeight * kDepth;
  const T alpha = static_cast<T>(g.alpha);
  for (int64_t left = part.left; left < part.left + part.columns; left += kAcross) {
    const int64_t columns = std::min(kAcross, part.left + part.columns - left);
    for (int64_t p = 0; p < g.k; p += kDepth) {
      const int64_t depth = std::min(kDepth, g.k - p);
      const bool add = g.accumulate || p > 0;
      pack<kWidth>(b + p * g.b_k + left * g.b_n, g.b_n, g.b_k, columns, depth, packed_b);
      for (int64_t top = part.top; top < part.top + part.rows; top += kHeight) {
        const int64_t rows = std::min(kHeight, part.top + part.rows - top);
        const T* from = a + top * g.a_m + p * g.a_k;
        if (!in_place) pack<kRows>(from, g.a_m, g.a_k, rows, depth, packed_a);
        for (int64_t j = 0; j < columns; j += kWidth)
          for (int64_t i = 0; i < rows; i += kRows) {
            const T *x = in_place ? from + i * g.a_m : packed_a + i * depth, *y = packed_b + j * depth;
            T* out = c + (top + i) * g.c_m + left + j;
            if (!in_place && rows - i >= kRows && columns - j >= kWidth)
              packed_tile(depth, x, y, out, g.c_m, alpha, add);
            else
              micro_rows<kRows, T>(std::min<int64_t>(kRows, rows - i), depth, x, in_place ? g.a_m : 1,
                                   int64_t{in_place ? 1 : kRows}, y, int64_t{kWidth}, out, g.c_m,
                                   std::min<int64_t>(kWidth, columns - j), alpha, add);
          }
      }
    }
  }
}

// How many parts the rows and columns of c are cut into. No sum is cut, so the result does not depend on it.
struct Grid {
  int64_t down, across, height, width;
};
Grid cut(int64_t m, int64_t n, int64_t parts, int64_t step_m, int64_t step_n) {
  const auto round_up = [](int64_t x, int64_t step) { return (x + step - 1) / step * step; };
  Grid best{};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t down = 1; down <= parts; ++down) {
    if (parts % down != 0) continue;
    const int64_t height = round_up((m + down - 1) / down, step_m);
    const int64_t width = round_up((n * down + parts - 1) / parts, step_n);
    const int64_t cost = height * width + kPackCost * (height + width);
    if (cost < least) {
      least = cost;
      best = {(m + height - 1) / height, (n + width - 1) / width, height, width};
    }
  }
  return best;
}
