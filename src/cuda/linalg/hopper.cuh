// Instructions of Hopper that C++ has no name for, one function each: barriers in shared memory (mbarrier), the bulk
// tensor copy engine (TMA) and the matrix instructions of a warpgroup (wgmma).
#pragma once
#include "cuda/linalg/gemm_hopper_params.h"
#include "cuda/linalg/tile_order.cuh"

namespace strata::cuda::hopper {

__device__ inline uint32_t cluster_rank() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

__device__ inline void cluster_sync() {  // relaxed: it orders arrival, not data (barrier_init has its own fence)
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ inline void barrier_init(uint32_t bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ inline void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void barrier_expect_bytes(uint32_t bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// Relaxed on purpose: what is handed back is a buffer whose reads wgmma_wait has finished, not data. With
// .release.cluster the compiler puts a MEMBAR.ALL.GPU into the main loop, which costs about as much as the arithmetic.
__device__ inline void barrier_arrive_at(uint32_t bar, uint32_t block) {
  asm volatile(
    "{\n.reg .b32 remote;\n"
    "mapa.shared::cluster.u32 remote, %0, %1;\n"
    "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(bar),
    "r"(block)
    : "memory");
}

__device__ inline void barrier_arrive(uint32_t bar) {  // of this block
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ inline void barrier_wait(uint32_t bar, uint32_t parity) {
  uint32_t done = 0;
  while (!done) {
    asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  }
}

// Position in the ring of stages. A barrier's phase flips each time round.
template <int kStages> struct Ring {
  int stage = 0;
  uint32_t phase = 0;
  __device__ void step() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  __device__ void skip(int steps) {
    const int position = stage + steps;
    phase ^= position / kStages & 1;
    stage = position % kStages;
  }
};

// A place in a tensor: x along the dense dimension, y along rows, and the two dimensions of the batch.
struct Place {
  int x, y, inner, outer;
};

// Loads one box; with a mask, the same bytes go to the same offset in every block named, and each one's barrier counts
// them.
template <bool kMulticast>
__device__ inline void tma_load(uint32_t to, const TensorMap& map, uint32_t bar, Place at, uint16_t mask) {
  if constexpr (kMulticast) {
    asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(&map), "r"(bar), "r"(at.x), "r"(at.y), "r"(at.inner), "r"(at.outer), "h"(mask)
      : "memory");
  } else {
    asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(bar), "r"(at.x), "r"(at.y), "r"(at.inner), "r"(at.outer)
      : "memory");
  }
}

// Loads one box of a tensor with three batch dimensions, outer first.
__device__ inline void tma_load(uint32_t to, const TensorMap& map, uint32_t bar, int x, int y, const int (&batch)[3]) {
  asm volatile(
    "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
    " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
    "l"(&map), "r"(bar), "r"(x), "r"(y), "r"(batch[2]), "r"(batch[1]), "r"(batch[0])
    : "memory");
}
// Copies consecutive bytes; all numbers are multiples of 16.
__device__ inline void bulk_load(uint32_t to, const void* from, int bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(bar)
               : "memory");
}

__device__ inline void tma_prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ inline void tma_store(const TensorMap& map, uint32_t from, Place at) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(at.x), "r"(at.y), "r"(at.inner), "r"(at.outer)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

template <int kPending> __device__ inline void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Named barriers: a warpgroup's own, and a hand-over in which one warpgroup waits and the other only passes by.
__device__ inline void turn_wait(int id) { asm volatile("bar.sync %0, 256;" ::"r"(id) : "memory"); }
__device__ inline void turn_give(int id) { asm volatile("bar.arrive %0, 256;" ::"r"(id) : "memory"); }
__device__ inline void group_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }

template <int kRegisters> __device__ inline void registers_give_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters> __device__ inline void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

__device__ inline uint16_t load_element(uint32_t address) {
  uint16_t r;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(r) : "r"(address));
  return r;
}
__device__ inline float2 load_pair(uint32_t address) {
  float2 r;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(address));
  return r;
}
__device__ inline void store_float(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

__device__ inline void store_zeros(uint32_t address) {  // 16 bytes
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

// Four 8x8 blocks at once; lane i gives the address of row i % 8 of block i / 8.
__device__ inline void store_matrix(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending> __device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses to sums across wgmma_wait, which does not name them.
template <int kCount> __device__ inline void wgmma_hold(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// An operand of wgmma in shared memory, in units of 16 bytes; bit 62 selects the 128-byte swizzle. `group` is the
// distance between 8-row groups; `chunk`, which counts where k is not the dense dimension, between chunks of 64
// columns.
__device__ inline uint64_t operand(uint32_t address, uint32_t chunk, uint32_t group) {
  return uint64_t(address >> 4 & 0x3fff) | uint64_t(chunk >> 4) << 16 | uint64_t(group >> 4) << 32 | uint64_t(1) << 62;
}

// One step of 64 x kN x 16: d = a b, or d += a b. The instruction names all kN / 2 sums of a thread.
template <int kN, bool kBf16, bool kAAlongK, bool kBAlongK> struct Wgmma;

#define STRATA_TEXT_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define STRATA_TEXT_32 STRATA_TEXT_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define STRATA_TEXT_64                                                                \
  STRATA_TEXT_32                                                                      \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51," \
  "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define STRATA_TEXT_96                                                                                \
  STRATA_TEXT_64                                                                                      \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87," \
  "%88,%89,%90,%91,%92,%93,%94,%95"
#define STRATA_TEXT_128                                                                               \
  STRATA_TEXT_96                                                                                      \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115," \
  "%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// c: the constraint, "+f" for sums that are added to.
#define STRATA_SUMS_4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define STRATA_SUMS_16(c, i) \
  STRATA_SUMS_4(c, i), STRATA_SUMS_4(c, i + 4), STRATA_SUMS_4(c, i + 8), STRATA_SUMS_4(c, i + 12)
#define STRATA_SUMS_32(c, i) STRATA_SUMS_16(c, i), STRATA_SUMS_16(c, i + 16)
#define STRATA_SUMS_64(c, i) STRATA_SUMS_32(c, i), STRATA_SUMS_32(c, i + 32)
#define STRATA_SUMS_96(c, i) STRATA_SUMS_64(c, i), STRATA_SUMS_32(c, i + 64)
#define STRATA_SUMS_128(c, i) STRATA_SUMS_64(c, i), STRATA_SUMS_64(c, i + 64)

// at_a ... at_tb: the numbers of the operands behind the sums.
#define STRATA_WGMMA_OF(type, constraint, kN, count, at_a, at_b, at_p, at_ta, at_tb)                     \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #at_p                                                \
               ", 0;\n"                                                                                  \
               "wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." type "." type " {" STRATA_TEXT_##count \
               "}, %" #at_a ", %" #at_b ", p, 1, 1, %" #at_ta ", %" #at_tb ";\n}"                        \
               : STRATA_SUMS_##count(constraint, 0)                                                      \
               : "l"(a), "l"(b), "r"(accumulate), "n"(kAAlongK ? 0 : 1), "n"(kBAlongK ? 0 : 1))
#define STRATA_WGMMA(kN, count, at_a, at_b, at_p, at_ta, at_tb)                                         \
  template <bool kBf16, bool kAAlongK, bool kBAlongK> struct Wgmma<kN, kBf16, kAAlongK, kBAlongK> {     \
    using Sum = float;                                                                                  \
    static __device__ inline void multiply(float (&d)[count], uint64_t a, uint64_t b, int accumulate) { \
      if constexpr (kBf16) STRATA_WGMMA_OF("bf16", "+f", kN, count, at_a, at_b, at_p, at_ta, at_tb);    \
      else STRATA_WGMMA_OF("f16", "+f", kN, count, at_a, at_b, at_p, at_ta, at_tb);                     \
    }                                                                                                   \
    /* d = a b, where the compiler knows that the old d is not read. */                                 \
    static __device__ inline void start(float (&d)[count], uint64_t a, uint64_t b) {                    \
      constexpr int accumulate = 0;                                                                     \
      if constexpr (kBf16) STRATA_WGMMA_OF("bf16", "=f", kN, count, at_a, at_b, at_p, at_ta, at_tb);    \
      else STRATA_WGMMA_OF("f16", "=f", kN, count, at_a, at_b, at_p, at_ta, at_tb);                     \
    }                                                                                                   \
  };
STRATA_WGMMA(32, 16, 16, 17, 18, 19, 20)
STRATA_WGMMA(64, 32, 32, 33, 34, 35, 36)
STRATA_WGMMA(128, 64, 64, 65, 66, 67, 68)
STRATA_WGMMA(192, 96, 96, 97, 98, 99, 100)
STRATA_WGMMA(256, 128, 128, 129, 130, 131, 132)

// The same with a in registers: two pairs of 16-bit numbers for each half of k. b is not dense along k.
template <int kN, bool kBf16> struct WgmmaRegisters;

#define STRATA_WGMMA_REGISTERS_OF(type, kN, count, a0, a1, a2, a3, at_b, at_p)                           \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #at_p                                                \
               ", 0;\n"                                                                                  \
               "wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." type "." type " {" STRATA_TEXT_##count \
               "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #at_b ", p, 1, 1, 1;\n}"                 \
               : STRATA_SUMS_##count("+f", 0)                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
#define STRATA_WGMMA_REGISTERS(kN, count, a0, a1, a2, a3, at_b, at_p)                                               \
  template <bool kBf16> struct WgmmaRegisters<kN, kBf16> {                                                          \
    static __device__ inline void multiply(float (&d)[count], const uint32_t (&a)[4], uint64_t b, int accumulate) { \
      if constexpr (kBf16) STRATA_WGMMA_REGISTERS_OF("bf16", kN, count, a0, a1, a2, a3, at_b, at_p);                \
      else STRATA_WGMMA_REGISTERS_OF("f16", kN, count, a0, a1, a2, a3, at_b, at_p);                                 \
    }                                                                                                               \
  };
STRATA_WGMMA_REGISTERS(64, 32, 32, 33, 34, 35, 36, 37)
STRATA_WGMMA_REGISTERS(128, 64, 64, 65, 66, 67, 68, 69)

}  // namespace strata::cuda::hopper
