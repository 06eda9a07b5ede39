// Parameters of a scan kernel; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kScanGroup = 32;  // tiles of a group
// 16-byte pieces of a thread. Log-sums keep a state per element, as computing them again would cost an exponential.
constexpr int kScanVectors = 8, kLogScanVectors = 4;
constexpr int kScanStateWords = 4;  // of 32 bits, at most

// Lines of n elements with stride `inner`: line l begins at l / inner * n * inner + l % inner.
struct ScanParams {
  uint64_t x, out, places;  // places: indices of cumulative extremes
  int32_t x_type, out_type;
  int32_t walk;     // one thread walks along a line, neighbours process neighbouring lines
  int32_t vectors;  // lines are contiguous and aligned for vectors
  int32_t warps;    // otherwise, the number of warps that share a line: 1 or all of the block
  int64_t lines, n, inner;
  // For lines that several blocks share: states of tiles, of groups of kScanGroup tiles, and of all groups up to each,
  // and a ticket. All are 0 at first.
  uint64_t tile_states, group_states, whole_states, ticket;
  int64_t tiles, groups;  // of a line
};

}  // namespace strata::cuda
