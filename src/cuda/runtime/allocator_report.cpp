// The allocator's reports: the snapshot, and the out-of-memory error.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "cuda/runtime/allocator.h"
#include "record/op.h"

namespace strata::cuda {
namespace {

std::string megabytes(size_t bytes) { return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20)); }

struct Holder {
  size_t bytes = 0, tensors = 0;
};
}  // namespace

std::vector<Allocator::BlockInfo> Allocator::snapshot() const {
  std::lock_guard lock(mutex_);
  std::vector<BlockInfo> list;
  for (const auto& [address, segment] : segments_)
    for (const Block* b = segment.first; b; b = b->after)
      if (!b->unmapped)
        list.push_back({b->address, address, b->size, b->requested, b->free || b->at_hand, segment.range != nullptr,
                        b->op ? *b->op : std::string(), b->line ? *b->line : std::string()});
  return list;
}

void Allocator::out_of_memory(size_t bytes) {
  ++stats_.failures;
  size_t free = 0, total = 0, largest = 0, cached = 0;
  gpu_.table().cuMemGetInfo(&free, &total);
  std::map<std::pair<std::string, std::string>, Holder> holders;  // by op and line
  for (const auto& [address, segment] : segments_)
    for (const Block* b = segment.first; b; b = b->after) {
      if (b->free || b->at_hand) {
        largest = std::max(largest, b->size);
        cached += b->size;
      }
      if (b->free || b->requested == 0) continue;  // cached, or waiting for another stream
      Holder& h = holders[{b->op ? *b->op : "(outside of ops)", b->line ? *b->line : ""}];
      h.bytes += b->requested;
      ++h.tensors;
    }
  const std::string op = thread_state.op ? thread_state.op->name : "";
  std::string text = fmt::format(
    "{}: out of memory. Tried to allocate {}{}. The device has {}, of which {} are free; tensors hold {}, {} are "
    "cached "
    "(largest free block {}).",
    to_string(gpu_.device()), megabytes(bytes), op.empty() ? op : " for " + op, megabytes(total), megabytes(free),
    megabytes(stats_.allocated), megabytes(cached), megabytes(largest));
  if (stats_.limit) text += fmt::format(" This process may reserve {}.", megabytes(stats_.limit));
  const size_t others = total - std::min(total, free + stats_.reserved);
  if (others > total / 4) text += fmt::format(" Contexts and other processes hold {}.", megabytes(others));

  std::vector<std::pair<size_t, std::string>> most;
  most.reserve(holders.size());
  for (const auto& [who, h] : holders)
    most.emplace_back(h.bytes, fmt::format("\n  {}: {} in {} tensors{}{}", who.first, megabytes(h.bytes), h.tensors,
                                           who.second.empty() ? "" : ", ", who.second));
  std::sort(most.rbegin(), most.rend());
  constexpr size_t kShown = 8;
  if (!most.empty()) text += "\nHeld by results of:";
  for (size_t i = 0; i < std::min(most.size(), kShown); ++i) text += most[i].second;
  if (most.size() > kShown) text += fmt::format("\n  and {} more", most.size() - kShown);

  text += "\nWhat would help: smaller batches; no_grad() where no gradient is needed; del of unused tensors";
  if (stats_.limit && stats_.reserved + bytes > stats_.limit) text += "; a larger set_per_process_memory_fraction";
  if (cached >= bytes && !expandable)
    text += "; STRATA_CUDA_ALLOC_CONF=expandable_segments:True, since cached memory is fragmented";
  if (!most.empty() && !history)
    text += fmt::format("; strata.{}.memory._record_memory_history() to see the lines of Python that hold it",
                        gpu_.runtime.type == DeviceType::Vgpu ? "vgpu" : "cuda");
  fail(ErrorKind::OutOfMemory, text + ".");
}

}  // namespace strata::cuda
