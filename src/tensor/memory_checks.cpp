#include "tensor/memory_checks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace strata {
namespace {

enum class Side { None, End, Front };

Side wanted_side() {
  static const Side side = [] {
    const char* text = std::getenv("STRATA_GUARD_PAGES");
    const std::string_view name = text ? text : "";
    if (name == "front") return Side::Front;
    return name == "end" || name == "1" ? Side::End : Side::None;
  }();
  return side;
}

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  return size;
}
size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

// A block ends directly at the guard page: n elements that end at a page boundary keep their alignment. A wider
// alignment would leave a gap for undetected reads.
size_t offset_in_pages(size_t bytes) { return wanted_side() == Side::End ? whole_pages(bytes) - bytes : 0; }

}  // namespace

bool guard_pages_wanted() { return wanted_side() != Side::None; }

std::byte* map_guarded(size_t bytes) {
  const size_t inner = whole_pages(bytes), total = inner + 2 * page_size();
  void* memory = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::byte* first = static_cast<std::byte*>(memory) + page_size();
  if (inner && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, total);
    return nullptr;
  }
  return first + offset_in_pages(bytes);
}

void unmap_guarded(std::byte* data, size_t bytes) {
  munmap(data - offset_in_pages(bytes) - page_size(), whole_pages(bytes) + 2 * page_size());
}

}  // namespace strata
