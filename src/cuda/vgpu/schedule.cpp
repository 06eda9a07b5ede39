// Runs one warp in lockstep: the group of lanes that is furthest behind runs until it reaches the next one.
#include <fmt/core.h>

#include <algorithm>

#include "cuda/vgpu/lanes/lanes.h"
#include "cuda/vgpu/mbarrier.h"

namespace strata::cuda::vgpu {

namespace {
// A group that spins waiting for another lane of its warp would starve it: after this many blocks without progress, the
// group furthest ahead runs for a while. GPUs since Volta guarantee the same progress.
constexpr uint32_t kPatience = 1000;
}  // namespace

std::string place_of(const Warp& w, uint32_t lane) {
  const BlockState& b = *w.block;
  const uint32_t thread = w.index * kLanes + lane;
  const auto at = static_cast<size_t>(w.current - b.program->code.data());
  const Source& s = b.program->source[at < b.program->source.size() ? at : 0];
  return fmt::format("kernel '{}'{}, block ({},{},{}), thread ({},{},{}), {}PTX line {}: {}", b.program->name,
                     b.label[0] ? fmt::format(" of {}", b.label) : "", b.index[0], b.index[1], b.index[2],
                     thread % b.threads[0], thread / b.threads[0] % b.threads[1], thread / b.threads[0] / b.threads[1],
                     s.cuda_line ? fmt::format("{}:{}, ", s.file, s.cuda_line) : "", s.line, s.text);
}

void fault(const Warp& w, int code, const std::string& what, uint32_t lane) {
  throw Fault(code, what + "; " + place_of(w, lane));
}

void push_group(Warp& w, const Group& group) {
  if (!group.mask) return;
  for (int k = 0; k < w.group_count; ++k) {
    Group& g = w.groups[k];
    const bool alike = g.wait == Wait::Ready || g.wait == Wait::Together ||
                       (g.instruction == group.instruction && g.barrier == group.barrier && g.phase == group.phase);
    if (g.block == group.block && g.wait == group.wait && alike) {
      g.mask |= group.mask;
      return;
    }
  }
  w.groups[w.group_count++] = group;
}

bool finished(const Warp& w) { return w.group_count == 0; }

namespace {

int choose(const Warp& w, bool ahead) {
  int best = -1;
  for (int k = 0; k < w.group_count; ++k) {
    if (w.groups[k].wait != Wait::Ready) continue;
    if (best < 0 || (ahead ? w.groups[k].block > w.groups[best].block : w.groups[k].block < w.groups[best].block))
      best = k;
  }
  return best;
}

// Lanes that wait for others that will not come: those have exited, which is fine, or are at a barrier or another such
// instruction, which is undefined on a GPU and is counted.
int choose_unmet(Warp& w) {
  uint32_t later = 0;  // lanes that will come after a phase
  for (int k = 0; k < w.group_count; ++k)
    if (w.groups[k].wait == Wait::Phase || w.groups[k].wait == Wait::Cluster) later |= w.groups[k].mask;
  for (int k = 0; k < w.group_count; ++k) {
    const Group& g = w.groups[k];
    if (g.wait != Wait::Together) continue;
    const uint32_t members = w.block->program->blocks[g.block].members;
    const uint32_t absent = cells<uint32_t>(w, members)[std::countr_zero(g.mask)] & w.alive & ~g.mask;
    if (absent & later) continue;
    if (absent) {
      ++w.block->tally.unmet;
      if (w.block->checks & kCheckSync) {
        w.current = &w.block->program->code[w.block->program->blocks[g.block].first];
        fault(w, kLaunchFailed,
              fmt::format("an instruction that names lanes 0x{:08x} runs without 0x{:08x} of them", absent | g.mask,
                          absent),
              static_cast<uint32_t>(std::countr_zero(g.mask)));
      }
    }
    return k;
  }
  return -1;
}

// At an instruction that names its lanes: true if all live ones are here.
bool together(Warp& w, const BasicBlock& b, uint32_t block, uint32_t mask) {
  const uint32_t need = cells<uint32_t>(w, b.members)[std::countr_zero(mask)] & w.alive;
  if (!(need & ~mask)) return true;
  push_group(w, {block, mask, Wait::Together, 0, 0});
  for (int k = 0; k < w.group_count; ++k)
    if (w.groups[k].block == block && w.groups[k].wait == Wait::Together && !(need & ~w.groups[k].mask))
      w.groups[k].wait = Wait::Ready;
  return false;
}

void jump_indexed(Warp& w, const Inst& i, uint32_t mask) {
  const auto& table = w.block->program->tables[static_cast<size_t>(i.imm)];
  const auto* index = cells<uint32_t>(w, i.a);
  each_lane(mask, [&](int k) {
    if (index[k] >= table.size()) {
      w.current = &i;
      fault(w, kIllegalInstruction, fmt::format("branch {} of {}", index[k], table.size()), static_cast<uint32_t>(k));
    }
    push_group(w, {table[index[k]], 1u << k, Wait::Ready, 0, 0});
  });
}

}  // namespace

bool run_warp(Warp& w, int64_t budget) {
  BlockState& state = *w.block;
  const BasicBlock* blocks = state.program->blocks.data();
  const Inst* code = state.program->code.data();
  uint64_t *executed = state.tally.executed.data(), *lanes = state.tally.lanes.data();
  uint32_t spins = 0;
  bool ran = false;
  wake(w);
  while (w.group_count) {
    const bool ahead = spins > kPatience;
    if (ahead) spins = 0;
    bool forced = false;
    int chosen = choose(w, ahead);
    if (chosen < 0) {
      chosen = choose_unmet(w);
      if (chosen < 0) return ran;  // all wait
      forced = true;
    }
    uint32_t at = w.groups[chosen].block, mask = w.groups[chosen].mask;
    w.groups[chosen] = w.groups[--w.group_count];
    uint32_t limit = kFull, quantum = ahead ? kPatience : kFull;
    if (!ahead)
      for (int k = 0; k < w.group_count; ++k)
        if (w.groups[k].wait == Wait::Ready) limit = std::min(limit, w.groups[k].block);
    for (;;) {
      const BasicBlock& b = blocks[at];
      if (b.together && w.group_count && !forced && !together(w, b, at, mask)) break;
      forced = false;
      ran = true;
      ++executed[at];
      lanes[at] += static_cast<uint64_t>(std::popcount(mask));
      state.instructions += b.instructions;
      w.mask = mask;
      for (const Inst *i = code + b.first, *end = code + b.last; i != end; ++i) {
        w.current = i;
        i->run(*i, w);
      }
      uint32_t next = at + 1;
      if (b.end != End::Fall) {
        const Inst& i = code[b.terminator];
        const uint32_t taken = active(i, w);
        if (b.end == End::Branch) {
          ++state.tally.branches;
          if (taken == mask) {
            next = b.target;
          } else if (taken) {
            ++state.tally.divergent;
            push_group(w, {b.target, taken, Wait::Ready, 0, 0});
            push_group(w, {next, mask & ~taken, Wait::Ready, 0, 0});
            break;
          }
        } else if (b.end == End::Exit) {
          w.alive &= ~taken;
          mask &= ~taken;
          if (!mask) break;
        } else {
          push_group(w, {next, mask & ~taken, Wait::Ready, 0, 0});
          if (taken && b.end == End::Barrier) arrive(w, b.terminator, taken, next);
          else if (taken && b.end == End::Wait) {
            if (!wait_at(w, b.terminator, taken, next)) return true;
          } else if (taken) jump_indexed(w, i, taken);
          break;
        }
      }
      at = next;
      const bool parted = w.group_count && ++spins > kPatience;
      if (parted || --quantum == 0 || at >= limit || --budget <= 0) {
        push_group(w, {at, mask, Wait::Ready, 0, 0});
        if (budget <= 0) return true;
        break;
      }
    }
  }
  return ran;
}

}  // namespace strata::cuda::vgpu
