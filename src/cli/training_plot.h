// The picture of a training run: the first chart large, two more beside it.
#pragma once
#include <string>
#include <vector>

#include "cli/chart.h"

namespace strata::cli {

std::string plot_svg(const std::string& title, const std::vector<Chart>& charts);  // the text of an SVG file

}  // namespace strata::cli
