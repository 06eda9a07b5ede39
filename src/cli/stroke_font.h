// A single-stroke font for plots: each character is a set of polylines on a grid 4 wide and 6 high.
#pragma once
#include <string_view>
#include <vector>

#include "cli/canvas.h"

namespace strata::cli {

struct Glyph {
  std::vector<std::vector<Point>> strokes;  // x from 0, y from 0 (top of a capital) to 6 (baseline), to 8 below it
  float advance;
};
const Glyph& glyph(char c);  // a box for characters it does not have

}  // namespace strata::cli
