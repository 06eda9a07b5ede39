// Colors on a terminal only, and not if NO_COLOR is set.
#pragma once
#include <string>

namespace strata::cli {

bool styled();  // whether standard output shows colors
std::string bold(const std::string& text);
std::string red(const std::string& text);
std::string yellow(const std::string& text);

}  // namespace strata::cli
