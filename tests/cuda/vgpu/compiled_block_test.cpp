// Compiled kernels whose threads cooperate, compared with the host: reductions, scans, matrix products.
#include <cmath>
#include <numeric>
#include <random>

#include "tests/cuda/vgpu/machine.h"

namespace strata::cuda::vgpu::testing {

namespace {

std::vector<float> normal(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> d;
  std::vector<float> v(n);
  for (auto& x : v) x = d(random);
  return v;
}

TEST(Compiled, PointwiseRowsAndSoftmax) {
  Machine m(compiled("block.75"));
  const auto x = normal(4000, 1), y = normal(4000, 2);
  const uint64_t px = m.put(x), py = m.put(y), out = m.put(x);
  const Counters c = m.run("pointwise", {{4, 1, 1}, {128, 1, 1}}, px, py, out, 1.5f, 1000);
  const auto r = m.get<float>(out, 4000);
  for (size_t i = 0; i < 4000; ++i) ASSERT_EQ(r[i], std::max(std::fma(x[i], 1.5f, y[i]), 0.0f)) << i;
  EXPECT_EQ(c.global_requests, 3u * 32);  // two loads and a store for each of 1000 / 32 warps
  EXPECT_EQ(c.global_sectors, 3u * 500);  // of 32 bytes: 16 in a request

  const int columns = 500;
  const uint64_t sums = m.put(std::vector<float>(8)), soft = m.put(x);
  m.run("row_sum", {{8, 1, 1}, {128, 1, 1}}, px, sums, columns);
  m.run("softmax", {{8, 1, 1}, {128, 1, 1}}, px, soft, columns);
  const auto s = m.get<float>(sums, 8), p = m.get<float>(soft, 4000);
  for (size_t row = 0; row < 8; ++row) {
    const float* begin = &x[row * 500];
    EXPECT_NEAR(s[row], std::accumulate(begin, begin + 500, 0.0), 1e-4);
    double total = 0;
    for (int k = 0; k < 500; ++k) total += std::exp(static_cast<double>(begin[k]));
    for (size_t k = 0; k < 500; ++k)
      ASSERT_NEAR(p[row * 500 + k], std::exp(static_cast<double>(begin[k])) / total, 1e-7);
  }
}

TEST(Compiled, ScanTransposeHistogramPhilox) {
  Machine m(compiled("block.75"));
  std::vector<int32_t> in(2048), want(2048);
  for (size_t k = 0; k < in.size(); ++k) in[k] = static_cast<int32_t>(k * 2654435761u >> 20) - 2000;
  for (size_t b = 0; b < 2; ++b) std::partial_sum(&in[b * 1024], &in[b * 1024] + 1024, &want[b * 1024]);
  const uint64_t pin = m.put(in), pout = m.put(in);
  m.run("scan", {{2, 1, 1}, {1024, 1, 1}}, pin, pout);
  EXPECT_EQ(m.get<int32_t>(pout, 2048), want);

  const auto x = normal(70 * 45, 3);
  const uint64_t px = m.put(x), py = m.put(x);
  const Counters c = m.run("transpose", {{2, 3, 1}, {32, 8, 1}}, px, py, 70, 45);
  const auto y = m.get<float>(py, x.size());
  for (size_t r = 0; r < 70; ++r)
    for (size_t q = 0; q < 45; ++q) ASSERT_EQ(y[q * 70 + r], x[r * 45 + q]);
  EXPECT_EQ(c.passes_per_request(), 1.0);  // a row of 33 words: no bank conflicts

  std::vector<uint8_t> bytes(5000);
  std::vector<uint32_t> bins(256);
  for (size_t k = 0; k < bytes.size(); ++k) ++bins[bytes[k] = static_cast<uint8_t>(k * k >> 5)];
  const uint64_t pb = m.put(bytes), ph = m.put(std::vector<uint32_t>(256));
  m.run("histogram", {{3, 1, 1}, {128, 1, 1}}, pb, ph, 5000);
  EXPECT_EQ(m.get<uint32_t>(ph, 256), bins);

  const uint64_t pr = m.put(std::vector<uint32_t>(4 * 4));
  m.over("philox", 4, uint64_t{0}, pr, 4);
  const auto random = m.get<uint32_t>(pr, 4);
  EXPECT_EQ(random, (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));  // the authors' vector
}

TEST(Compiled, ABarrierOverTheGridInACooperativeLaunch) {
  Machine m(compiled("block.75"));
  const int blocks = 6, threads = 64, n = blocks * threads, rounds = 5;
  std::vector<int32_t> data(2 * n);
  for (int k = 0; k < n; ++k) data[static_cast<size_t>(k)] = k % 7;
  const uint64_t pd = m.put(data), pa = m.put(std::vector<uint32_t>(1));
  Launch launch{{blocks, 1, 1}, {threads, 1, 1}};
  launch.cooperative = true;
  m.run("grid_barrier", launch, pd, pa, rounds);
  std::vector<int32_t> want(data.begin(), data.begin() + n);
  for (int r = 0; r < rounds; ++r) {
    auto next = want;
    for (size_t k = 0; k < want.size(); ++k) next[k] = want[k] + want[(k + 1) % want.size()];
    want = next;
  }
  const auto got = m.get<int32_t>(pd, 2 * static_cast<size_t>(n));
  EXPECT_EQ(std::vector<int32_t>(got.begin() + n, got.end()), want);  // after an odd number of rounds
}

std::vector<double> product(const std::vector<float>& a, const std::vector<float>& b, size_t m, size_t n, size_t k) {
  std::vector<double> c(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t l = 0; l < k; ++l)
      for (size_t j = 0; j < n; ++j) c[i * n + j] += static_cast<double>(a[i * k + l]) * b[l * n + j];
  return c;
}

TEST(Compiled, ProductsOfMatrices) {
  Machine m(compiled("gemm.75"));
  const auto a = normal(128 * 48, 4), b = normal(48 * 64, 5);
  const auto want = product(a, b, 128, 64, 48);
  const uint64_t pa = m.put(a), pb = m.put(b), pc = m.put(std::vector<float>(128 * 64)),
                 pd = m.put(std::vector<float>(128 * 64));
  m.run("gemm_tiled", {{1, 2, 1}, {256, 1, 1}}, pa, pb, pc, 128, 64, 48);
  m.run("gemm_plain", {{4, 8, 1}, {16, 16, 1}}, pa, pb, pd, 128, 64, 48);
  const auto c = m.get<float>(pc, want.size()), d = m.get<float>(pd, want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    ASSERT_NEAR(c[k], want[k], 1e-4) << k;
    ASSERT_NEAR(d[k], want[k], 1e-4) << k;
  }
}

TEST(Compiled, MatrixInstructionsOnHalves) {
  Machine m(compiled("mma.80"));
  std::vector<float> a(32 * 48), b(48 * 64);
  for (size_t k = 0; k < a.size(); ++k) a[k] = static_cast<float>(static_cast<int>(k * 7 % 31) - 15) / 8;
  for (size_t k = 0; k < b.size(); ++k) b[k] = static_cast<float>(static_cast<int>(k * 5 % 29) - 14) / 16;
  std::vector<uint16_t> ha, hb;
  for (float v : a) ha.push_back(float_to_half(v));
  for (float v : b) hb.push_back(float_to_half(v));
  const auto want = product(a, b, 32, 64, 48);  // exact in float
  const uint64_t pa = m.put(ha), pb = m.put(hb), pc = m.put(std::vector<float>(want.size())),
                 pd = m.put(std::vector<float>(want.size()));
  m.run("gemm_mma", {{4, 2, 1}, {32, 1, 1}}, pa, pb, pc, 32, 64, 48);
  m.run("gemm_wmma", {{4, 2, 1}, {32, 1, 1}}, pa, pb, pd, 32, 64, 48);
  const auto c = m.get<float>(pc, want.size()), d = m.get<float>(pd, want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(c[k], static_cast<float>(want[k])) << k;
    ASSERT_EQ(d[k], static_cast<float>(2 * want[k])) << k;
  }
  // Both operands and the result column by column: D^T = B^T A^T + 1.
  const std::vector<float> ca(a.begin(), a.begin() + 256), cb(b.begin(), b.begin() + 256);
  const auto columns = product(cb, ca, 16, 16, 16);
  const uint64_t pe = m.put(std::vector<uint16_t>(256));
  m.run("wmma_columns", {{1, 1, 1}, {32, 1, 1}}, pa, pb, pe);
  const auto e = m.get<uint16_t>(pe, 256);
  for (size_t k = 0; k < 256; ++k)
    ASSERT_EQ(half_to_float(e[k]), half_to_float(float_to_half(static_cast<float>(columns[k] + 1)))) << k;
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
