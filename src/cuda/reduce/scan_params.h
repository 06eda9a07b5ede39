// What the host tells a scan kernel; compiled by both compilers, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

// Lines of n elements, `inner` apart: line l begins at l / inner * n * inner + l % inner.
struct ScanParams {
  uint64_t x, out, places;             // places: of running extremes
  uint64_t carry;                      // wide numbers: the parts' totals scanned, [lines][parts]; 0: there is one part
  uint64_t carry_parts, carry_places;  // of extremes: the part that each came from, and the place of each part's own
  int32_t x_type, out_type;
  int32_t walk;     // one thread goes along a line, neighbours take neighbouring lines
  int32_t vectors;  // lines lie densely, aligned for vectors
  int32_t warps;    // that share a line otherwise: 1 or all of the block
  int32_t totals;   // only each part's last value is wanted: it goes to `out` as a wide number, its place to `places`
  int64_t lines, n, inner;
  int64_t part, parts;  // elements of a part, parts of a line
};

}  // namespace strata::cuda
