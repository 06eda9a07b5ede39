// Which digits `strata train` learns: MNIST where it is or can be had, synthetic ones otherwise.
#pragma once
#include <string>

#include "nn/data/image_sets.h"

namespace strata::cli {

struct Digits {
  std::string name;    // "MNIST", "synthetic digits"
  std::string source;  // where they come from, for the user
  data::ImageSet train, test;
};

// `choice` is a folder, "mnist", "synthetic" or empty (MNIST if possible). Throws when an explicit choice cannot be had.
Digits load_digits(const std::string& choice, bool may_download, bool quiet);

}  // namespace strata::cli
