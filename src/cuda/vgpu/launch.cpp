// A launch: checks against the profile, blocks distributed over threads, counters summed.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "cuda/vgpu/cache.h"
#include "cuda/vgpu/cluster.h"
#include "cuda/vgpu/device.h"
#include "cuda/vgpu/lanes/lanes.h"
#include "cuda/vgpu/mbarrier.h"

namespace strata::cuda::vgpu {

namespace {

constexpr int64_t kSlice = 200000;  // basic blocks of one warp before the next gets its turn
// New shared memory: NaN as a float, far out of range as an index, and the same in every run.
constexpr int kFreshShared = 0xff;
constexpr uint64_t kMostTogether = 4096;  // blocks of a cooperative launch

void broadcast(Warp& w, uint32_t place, uint32_t value) { std::fill_n(cells<uint32_t>(w, place), kLanes, value); }

// A running block: its memory is reused for the next one.
class Runner {
 public:
  Runner(const Program& p, const Profile& profile, const Memory& memory, const Launch& launch,
         const std::vector<uint8_t>& params, std::atomic<uint64_t>& spent, CacheModel* cache, Cluster& cluster)
      : program_(p), launch_(launch), spent_(spent) {
    state_.cluster = &cluster;
    cluster.blocks.push_back(&state_);
    const auto threads = static_cast<uint32_t>(launch.block.count()), warps = (threads + kLanes - 1) / kLanes;
    state_.program = &p;
    state_.memory = &memory;
    state_.params = params.data();
    state_.shared_bytes = p.shared_bytes + launch.dynamic_shared;
    state_.checks = launch.checks | (cache ? kEveryLane : 0);
    state_.cache = cache;
    state_.label = launch.label.c_str();
    state_.threads[0] = launch.block.x;
    state_.threads[1] = launch.block.y;
    state_.threads[2] = launch.block.z;
    registers_ = make(size_t{p.register_bytes} * warps);
    shared_ = make(state_.shared_bytes);
    local_ = make(size_t{p.local_bytes} * kLanes * warps);
    state_.shared = shared_.get();
    state_.local = local_.get();
    state_.tally.executed.assign(p.blocks.size(), 0);
    state_.tally.lanes.assign(p.blocks.size(), 0);
    state_.tally.sites.resize(p.sites.size());
    state_.warps.resize(warps);
    for (const auto& [place, name] : p.specials)
      if (name.starts_with("%ctaid.") || name.starts_with("%cluster")) of_block_.emplace_back(place, name);
    for (uint32_t k = 0; k < warps; ++k) prepare(state_.warps[k], k, profile);
  }

  // cluster: its index in the grid of clusters; rank: that of the block in it.
  void start(uint64_t cluster, uint32_t rank) {
    const Dim3 &g = launch_.grid, &c = launch_.cluster;
    const uint32_t x = g.x / c.x, y = g.y / c.y;
    const uint32_t id[3] = {static_cast<uint32_t>(cluster % x), static_cast<uint32_t>(cluster / x % y),
                            static_cast<uint32_t>(cluster / x / y)};
    const uint32_t inside[3] = {rank % c.x, rank / c.x % c.y, rank / c.x / c.y}, size[3] = {c.x, c.y, c.z};
    for (size_t d = 0; d < 3; ++d) state_.index[d] = id[d] * size[d] + inside[d];
    const auto value = [&](const std::string& name) {
      const auto axis = static_cast<size_t>(name.back() - 'x');
      if (name == "%cluster_ctarank") return rank;
      if (name == "%cluster_nctarank") return static_cast<uint32_t>(c.count());
      if (name.starts_with("%clusterid.")) return id[axis];
      if (name.starts_with("%cluster_ctaid.")) return inside[axis];
      return name.starts_with("%cluster_nctaid.") ? size[axis] : state_.index[axis];
    };
    std::memset(state_.shared, kFreshShared, state_.shared_bytes);
    state_.instructions = charged_ = 0;
    if (state_.checks) state_.history.reset(state_.shared_bytes, state_.checks);
    for (auto& b : state_.barriers) b = BarrierState{};
    const auto threads = static_cast<uint32_t>(launch_.block.count());
    for (Warp& w : state_.warps) {
      for (const auto& [place, name] : of_block_) broadcast(w, place, value(name));
      const uint32_t left = threads - w.index * kLanes;
      w.alive = left >= kLanes ? kFull : (1u << left) - 1;
      w.group_count = 1;
      w.groups[0] = {0, w.alive, Wait::Ready, 0, 0};
      w.copies.clear();
      w.copy_group.fill(0);
      w.bulk_group.fill(0);
      w.matrix_reads.clear();
      w.matrix_group = w.cluster_arrived = w.cluster_waits = 0;
    }
  }

  enum class Step : uint8_t { Finished, Ran, Stuck };
  Step step() {
    bool ran = false, done = true;
    for (Warp& w : state_.warps) {
      if (finished(w)) continue;
      ran |= run_warp(w, kSlice);
      done = done && finished(w);
    }
    const uint64_t more = state_.instructions - charged_;
    charged_ = state_.instructions;
    const uint64_t spent = spent_.fetch_add(more, std::memory_order_relaxed) + more;
    if (done) {
      if (ran) finish_block(state_);
      return Step::Finished;
    }
    if (launch_.instruction_limit && spent > launch_.instruction_limit)
      stop(kLaunchTimeout, fmt::format("the launch ran for {} warp instructions, more than the limit of {}; "
                                       "STRATA_VGPU_LIMIT sets another",
                                       spent, launch_.instruction_limit));
    return ran || release_complete(state_) ? Step::Ran : Step::Stuck;
  }

  // Nothing that the threads of the cluster wait for can happen any more.
  [[noreturn]] void deadlock() {
    for (const Warp& w : state_.warps)
      for (int k = 0; k < w.group_count; ++k) {
        const Group& g = w.groups[k];
        if (g.wait == Wait::Cluster)
          stop(kLaunchFailed, "deadlock: threads wait for a cluster whose other threads never arrive");
        if (g.wait != Wait::Phase) continue;
        const Mbarrier m = read_mbarrier(w, state_, g.barrier, std::countr_zero(g.mask));
        stop(
          kLaunchFailed,
          fmt::format("deadlock: threads wait for the mbarrier at 0x{:x}, whose phase {} never ends: {} of {} arrivals "
                      "and {} bytes are missing",
                      g.barrier, m.phase ? 1 : 0, m.pending, m.expected, m.bytes));
      }
    stop(kLaunchFailed, "threads wait at a barrier that the others never reach");
  }

  const Tally& tally() const { return state_.tally; }

 private:
  using Bytes = std::unique_ptr<uint8_t, decltype(&std::free)>;
  static Bytes make(size_t bytes) {
    auto* p = static_cast<uint8_t*>(std::aligned_alloc(256, (bytes + 511) & ~size_t{255}));
    STRATA_CHECK(p, OutOfMemory, "vgpu: no host memory for the {} bytes of a block", bytes);
    std::memset(p, 0, bytes);
    return {p, &std::free};
  }

  [[noreturn]] void stop(int code, const std::string& what) {
    for (Warp& w : state_.warps)
      if (!finished(w)) {
        const Group& g = w.groups[0];
        const bool at_block = g.wait == Wait::Ready || g.wait == Wait::Together;
        w.current = &program_.code[at_block ? program_.blocks[g.block].first : g.instruction];
        fault(w, code, what, static_cast<uint32_t>(std::countr_zero(g.mask)));
      }
    throw Fault(code, what);
  }

  void prepare(Warp& w, uint32_t index, const Profile& profile) {
    w.registers = registers_.get() + size_t{index} * program_.register_bytes;
    w.block = &state_;
    w.index = index;
    mask_at(w, 0) = kFull;
    for (const auto& [place, bits] : program_.words) broadcast(w, place, bits);
    for (const auto& [place, bits] : program_.longs) std::fill_n(cells<uint64_t>(w, place), kLanes, bits);
    for (const auto& [place, name] : program_.specials)
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        cells<uint32_t>(w, place)[lane] = special(name, index, lane, profile);
  }

  uint32_t special(const std::string& n, uint32_t warp, uint32_t lane, const Profile& profile) const {
    const Dim3 &b = launch_.block, &g = launch_.grid;
    const uint32_t thread = warp * kLanes + lane, below = (1u << lane) - 1;
    if (n == "%tid.x") return thread % b.x;
    if (n == "%tid.y") return thread / b.x % b.y;
    if (n == "%tid.z") return thread / b.x / b.y;
    if (n == "%ntid.x") return b.x;
    if (n == "%ntid.y") return b.y;
    if (n == "%ntid.z") return b.z;
    if (n == "%nctaid.x") return g.x;
    if (n == "%nctaid.y") return g.y;
    if (n == "%nctaid.z") return g.z;
    if (n == "%laneid") return lane;
    if (n == "%warpid") return warp;
    if (n == "%nwarpid") return static_cast<uint32_t>(profile.threads_per_sm / kLanes);
    if (n == "%nsmid") return static_cast<uint32_t>(profile.multiprocessors);
    if (n == "%lanemask_eq") return 1u << lane;
    if (n == "%lanemask_lt") return below;
    if (n == "%lanemask_le") return below | 1u << lane;
    if (n == "%lanemask_gt") return ~(below | 1u << lane);
    if (n == "%lanemask_ge") return ~below;
    if (n == "%dynamic_smem_size") return launch_.dynamic_shared;
    if (n == "%total_smem_size") return program_.shared_bytes + launch_.dynamic_shared;
    if (n.starts_with("%nclusterid.")) {
      const Dim3& c = launch_.cluster;
      return n.back() == 'x' ? g.x / c.x : n.back() == 'y' ? g.y / c.y : g.z / c.z;
    }
    return 0;  // %smid: any multiprocessor will do; %ctaid and those of clusters are set per block
  }

  const Program& program_;
  const Launch& launch_;
  std::atomic<uint64_t>& spent_;  // warp instructions of the launch
  uint64_t charged_ = 0;          // of this block, already in spent_
  BlockState state_;
  std::vector<std::pair<uint32_t, std::string>> of_block_;  // special registers that differ between blocks
  Bytes registers_{nullptr, &std::free}, shared_{nullptr, &std::free}, local_{nullptr, &std::free};
};

// The blocks of a cluster, which run together, or a single block.
class Team {
 public:
  Team(const Program& p, const Profile& profile, const Memory& memory, const Launch& launch,
       const std::vector<uint8_t>& params, std::atomic<uint64_t>& spent, CacheModel* cache) {
    for (uint64_t k = 0; k < launch.cluster.count(); ++k)
      runners_.push_back(std::make_unique<Runner>(p, profile, memory, launch, params, spent, cache, cluster_));
  }

  void start(uint64_t cluster) {
    cluster_.phase = false;
    for (size_t k = 0; k < runners_.size(); ++k) runners_[k]->start(cluster, static_cast<uint32_t>(k));
  }

  bool step() {  // true if all blocks have finished
    bool done = true, ran = false;
    Runner* stuck = nullptr;
    for (const auto& r : runners_) {
      const Runner::Step s = r->step();
      done = done && s == Runner::Step::Finished;
      ran = ran || s == Runner::Step::Ran;
      if (s == Runner::Step::Stuck && !stuck) stuck = r.get();
    }
    if (stuck && !ran && !release_cluster(cluster_)) stuck->deadlock();
    return done;
  }

  void add_to(Tally& total) const;

 private:
  Cluster cluster_;
  std::vector<std::unique_ptr<Runner>> runners_;
};

// The launch with the size of its clusters.
Launch with_cluster(const Program& p, const Profile& profile, Launch l) {
  const Dim3 needs{p.cluster[0], p.cluster[1], p.cluster[2]};
  Dim3& c = l.cluster;
  if (c.count() == 0) c = needs.count() ? needs : Dim3{};
  STRATA_CHECK(!needs.count() || (c.x == needs.x && c.y == needs.y && c.z == needs.z), Value,
               "launch of '{}': clusters of ({},{},{}) blocks, the kernel needs ({},{},{})", p.name, c.x, c.y, c.z,
               needs.x, needs.y, needs.z);
  STRATA_CHECK(c.count() == 1 || profile.major >= 9, Value,
               "launch of '{}': clusters of ({},{},{}) blocks, which {} does not have; use the profile hopper", p.name,
               c.x, c.y, c.z, profile.name);
  STRATA_CHECK(c.count() <= kMostClusterBlocks, Value,
               "launch of '{}': a cluster of {} blocks, at most {} are possible", p.name, c.count(),
               kMostClusterBlocks);
  STRATA_CHECK(l.grid.x % c.x == 0 && l.grid.y % c.y == 0 && l.grid.z % c.z == 0, Value,
               "launch of '{}': grid ({},{},{}) is not a multiple of clusters ({},{},{})", p.name, l.grid.x, l.grid.y,
               l.grid.z, c.x, c.y, c.z);
  return l;
}

void check(const Program& p, const Profile& profile, const Launch& l) {
  const uint64_t threads = l.block.count();
  STRATA_CHECK(l.grid.x && l.grid.y && l.grid.z && l.block.x && l.block.y && l.block.z, Value,
               "launch of '{}': grid ({},{},{}) and block ({},{},{}) must not be empty", p.name, l.grid.x, l.grid.y,
               l.grid.z, l.block.x, l.block.y, l.block.z);
  STRATA_CHECK(l.grid.x <= INT32_MAX && l.grid.y <= 65535 && l.grid.z <= 65535, Value,
               "launch of '{}': grid ({},{},{}) is larger than (2147483647,65535,65535)", p.name, l.grid.x, l.grid.y,
               l.grid.z);
  STRATA_CHECK(l.block.x <= 1024 && l.block.y <= 1024 && l.block.z <= 64 && threads <= p.max_threads, Value,
               "launch of '{}': block ({},{},{}) has {} threads, the kernel allows {}", p.name, l.block.x, l.block.y,
               l.block.z, threads, p.max_threads);
  const uint64_t shared = uint64_t{p.shared_bytes} + l.dynamic_shared;
  STRATA_CHECK(shared <= static_cast<uint64_t>(profile.shared_optin), Value,
               "launch of '{}': {} bytes of shared memory, {} has {} per block", p.name, shared, profile.name,
               profile.shared_optin);
}

void add(Tally& to, const Tally& from) {
  for (size_t k = 0; k < to.executed.size(); ++k) {
    to.executed[k] += from.executed[k];
    to.lanes[k] += from.lanes[k];
  }
  for (size_t k = 0; k < to.sites.size(); ++k) {
    to.sites[k].requests += from.sites[k].requests;
    to.sites[k].parts += from.sites[k].parts;
  }
  to.branches += from.branches;
  to.divergent += from.divergent;
  to.barriers += from.barriers;
  to.atomics += from.atomics;
  to.atomic_conflicts += from.atomic_conflicts;
  to.unmet += from.unmet;
}

void Team::add_to(Tally& total) const {
  for (const auto& r : runners_) add(total, r->tally());
}

Counters counted(const Program& p, const Profile& profile, const Launch& l, const Tally& t, CacheModel* cache) {
  Counters c;
  if (cache) {
    cache->flush();
    c.cache_modelled = true;
    c.dram_read = cache->read();
    c.dram_written = cache->written();
  }
  c.kernel = p.name;
  c.op = l.label;
  c.blocks = l.grid.count();
  c.warps = c.blocks * ((l.block.count() + kLanes - 1) / kLanes);
  for (size_t k = 0; k < p.blocks.size(); ++k) {
    c.warp_instructions += t.executed[k] * p.blocks[k].instructions;
    c.thread_instructions += t.lanes[k] * p.blocks[k].instructions;
    for (size_t m = 0; m < kClasses; ++m) c.mix[m] += t.executed[k] * p.blocks[k].mix[m];
  }
  for (size_t k = 0; k < p.sites.size(); ++k) {
    const bool shared = p.sites[k] == Space::Shared;
    if (!shared && p.sites[k] != Space::Global && p.sites[k] != Space::Const && p.sites[k] != Space::Generic) continue;
    (shared ? c.shared_requests : c.global_requests) += t.sites[k].requests;
    (shared ? c.shared_passes : c.global_sectors) += t.sites[k].parts;
  }
  c.branches = t.branches;
  c.divergent_branches = t.divergent;
  c.barriers = t.barriers;
  c.atomics = t.atomics;
  c.atomic_conflicts = t.atomic_conflicts;
  c.unmet = t.unmet;
  c.occupancy =
    occupancy(profile, static_cast<uint32_t>(l.block.count()), p.registers, p.shared_bytes + l.dynamic_shared);
  c.estimated = estimate(c, profile);
  return c;
}

}  // namespace

Counters run(const Program& p, const Profile& profile, const Memory& memory, const Launch& given,
             const void* const* params) {
  check(p, profile, given);
  const Launch launch = with_cluster(p, profile, given);
  std::vector<uint8_t> bytes(p.param_bytes + 16);
  for (size_t k = 0; k < p.params.size(); ++k) {
    STRATA_CHECK(params && params[k], Value, "launch of '{}': argument {} is missing", p.name, k);
    std::memcpy(bytes.data() + p.params[k].offset, params[k], p.params[k].bytes);
  }
  const uint64_t blocks = launch.grid.count(), clusters = blocks / launch.cluster.count();
  std::atomic<uint64_t> spent{0};
  const auto cache =
    launch.model_cache ? std::make_unique<CacheModel>(static_cast<uint64_t>(profile.l2_bytes)) : nullptr;
  Tally total;
  total.executed.assign(p.blocks.size(), 0);
  total.lanes.assign(p.blocks.size(), 0);
  total.sites.resize(p.sites.size());
  if (launch.cooperative) {
    STRATA_CHECK(blocks <= kMostTogether, Value, "cooperative launch of '{}': {} blocks, at most {} run together",
                 p.name, blocks, kMostTogether);
    std::vector<std::unique_ptr<Team>> teams;
    for (uint64_t k = 0; k < clusters; ++k) {
      teams.push_back(std::make_unique<Team>(p, profile, memory, launch, bytes, spent, cache.get()));
      teams.back()->start(k);
    }
    std::vector<bool> done(clusters, false);
    for (uint64_t left = clusters; left;)
      for (uint64_t k = 0; k < clusters; ++k)
        if (!done[k] && teams[k]->step()) {
          done[k] = true;
          --left;
        }
    for (const auto& t : teams) t->add_to(total);
    return counted(p, profile, launch, total, cache.get());
  }
  const bool serial = (p.ordered && !launch.unordered_atomics) || cache;
  const auto workers =
    static_cast<int64_t>(serial ? 1 : std::min<uint64_t>(clusters, static_cast<uint64_t>(num_threads())));
  std::atomic<uint64_t> next{0};
  std::mutex guard;
  parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
    if (begin == end) return;
    Team team(p, profile, memory, launch, bytes, spent, cache.get());
    try {
      for (uint64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < clusters;) {
        team.start(k);
        while (!team.step()) {}
      }
    } catch (...) {
      next.store(clusters, std::memory_order_relaxed);  // the others can stop
      throw;
    }
    const std::lock_guard<std::mutex> lock(guard);
    team.add_to(total);
  });
  return counted(p, profile, launch, total, cache.get());
}

}  // namespace strata::cuda::vgpu
