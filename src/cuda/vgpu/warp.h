// The state of a running block: its warps, their divergent groups, shared memory, barriers and counters.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "cuda/vgpu/bulk.h"
#include "cuda/vgpu/checks.h"
#include "cuda/vgpu/memory.h"
#include "cuda/vgpu/program.h"

namespace strata::cuda::vgpu {

inline constexpr uint32_t kFull = 0xffffffffu;
inline constexpr int kLanes = 32;
inline constexpr int kBarriers = 16;
// Generic addresses of shared and local memory and of parameters are in windows without pages of any process.
inline constexpr uint64_t kSharedWindow = 0x0100000000000000, kLocalWindow = 0x0200000000000000,
                          kParamWindow = 0x0300000000000000;
inline constexpr uint64_t kWindow = uint64_t{1} << 32;

// A fault of a kernel: its location, and the driver's code for it.
class STRATA_API Fault : public Error {
 public:
  Fault(int code, const std::string& what) : Error(ErrorKind::Runtime, what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};
inline constexpr int kIllegalAddress = 700, kLaunchTimeout = 702, kAssert = 710, kIllegalInstruction = 715,
                     kMisaligned = 716, kLaunchFailed = 719;

struct BlockState;
struct Cluster;
class CacheModel;

enum class Wait : uint8_t { Ready, Barrier, Together, Phase, Cluster };
struct Group {  // lanes at the same instruction
  uint32_t block = 0, mask = 0;
  Wait wait = Wait::Ready;
  uint32_t barrier = 0, instruction = 0;  // for a group that waits at a barrier: the barrier and its instruction
  bool phase = false;                     // Wait::Phase, Cluster: parity of the phase that must end
};

struct AsyncCopy {
  uint8_t* to;
  const uint8_t* from;
  uint32_t lane, group;
  uint8_t bytes, given;  // the rest is zeros
};

struct MatrixRead {  // shared memory that matrix instructions in flight may read
  uint32_t begin, end, group;
};

struct Warp {
  uint8_t* registers = nullptr;
  uint32_t mask = 0;   // lanes that run the current instruction, before its guard
  uint32_t alive = 0;  // lanes that have not exited
  uint32_t carry = 0;  // the condition code of add.cc and related instructions, a bit per lane
  uint32_t index = 0;
  const Inst* current = nullptr;
  BlockState* block = nullptr;
  Group groups[kLanes + 1];
  int group_count = 0;
  std::vector<AsyncCopy> copies;
  std::array<uint32_t, kLanes> copy_group{}, bulk_group{};
  std::vector<BulkCopy> stores;
  std::vector<MatrixRead> matrix_reads;  // with the race check
  uint32_t matrix_group = 0;
  // barrier.cluster: lanes that have arrived in this phase, and those that may wait, with the phase they wait for.
  uint32_t cluster_arrived = 0, cluster_waits = 0, cluster_phases = 0;
};

struct BarrierState {
  std::vector<uint32_t> arrived;  // lanes per warp
  uint32_t expected = 0;          // threads; 0: all of the block
  bool all = true, any = false;   // of the reduction
  uint32_t count = 0;
};

// Counters of one memory instruction, and its last address pattern: loops repeat the same pattern.
enum class Pattern : uint8_t { Any, Linear, Uniform, Window };  // Window: words inside 256 bytes
struct alignas(64) Site {
  std::array<uint32_t, kLanes> pattern{};   // of each lane in the mask, relative to the first of them
  std::array<uint32_t, kLanes> words{};     // the same in words, relative to the lowest
  uint64_t requests = 0, parts = 0;         // parts: sectors of 32 bytes, or passes over the banks
  uint32_t mask = 0, phase = 0, known = 0;  // known: parts of this pattern at this phase
  int32_t low = 0, high = 0;                // of the offsets
  Pattern kind = Pattern::Any;
  bool aligned = false;
};

struct Tally {
  std::vector<uint64_t> executed, lanes;  // per basic block
  std::vector<Site> sites;
  uint64_t branches = 0, divergent = 0, barriers = 0, atomics = 0, atomic_conflicts = 0, unmet = 0;
};

struct BlockState {
  const Program* program = nullptr;
  const Memory* memory = nullptr;
  uint8_t* shared = nullptr;
  uint8_t* local = nullptr;  // lanes of warp 0, of warp 1, ...
  const uint8_t* params = nullptr;
  uint32_t shared_bytes = 0;
  uint32_t index[3] = {}, threads[3] = {};
  Cluster* cluster = nullptr;
  std::vector<BulkCopy> loads;  // bulk copies into this block that nobody has waited for
  uint32_t checks = 0;          // of checks.h; memory is then accessed lane by lane
  SharedHistory history;
  CacheModel* cache = nullptr;  // null: not modelled
  const char* label = "";       // label of the launching code
  uint64_t instructions = 0;    // warp instructions of this block so far
  std::vector<Warp> warps;
  std::array<BarrierState, kBarriers> barriers;
  Tally tally;
};

// The location of a warp's current instruction: "kernel 'add', block (0,0,0), thread (5,0,0), PTX line 12:
// ld.global...".
std::string place_of(const Warp& w, uint32_t lane);
[[noreturn, gnu::cold]] void fault(const Warp& w, int code, const std::string& what, uint32_t lane);

// Runs until all lanes have exited or wait at a barrier, or `budget` blocks were run. True if something was run.
bool run_warp(Warp& w, int64_t budget);
bool finished(const Warp& w);
// Barriers (barrier.cpp): the lanes of `mask` arrive with the instruction of this index and continue at the block
// `next`.
void arrive(Warp& w, uint32_t instruction, uint32_t mask, uint32_t next);
bool release_complete(BlockState& b);  // true if a barrier was released
void push_group(Warp& w, const Group& group);

}  // namespace strata::cuda::vgpu
