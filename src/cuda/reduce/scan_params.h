// Parameters of a scan kernel; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

// Lines of n elements with stride `inner`: line l begins at l / inner * n * inner + l % inner.
struct ScanParams {
  uint64_t x, out, places;  // places: indices of cumulative extremes
  uint64_t carry;           // wide numbers: the scanned totals of the parts, [lines][parts]; 0: there is one part
  uint64_t carry_parts, carry_places;  // for extremes: the part that each came from, and the index within each part
  int32_t x_type, out_type;
  int32_t walk;     // one thread walks along a line, neighbours process neighbouring lines
  int32_t vectors;  // lines are contiguous and aligned for vectors
  int32_t warps;    // otherwise, the number of warps that share a line: 1 or all of the block
  // only the last value of each part is computed: it goes to `out` as a wide number, its index to `places`
  int32_t totals;
  int64_t lines, n, inner;
  int64_t part, parts;  // elements of a part, parts of a line
};

}  // namespace strata::cuda
