// Chooses the digits for `strata train`: MNIST if available, synthetic ones otherwise.
#pragma once
#include <string>

#include "nn/data/image_sets.h"

namespace strata::cli {

struct Digits {
  std::string name;    // "MNIST", "synthetic digits"
  std::string source;  // where they come from, for the user
  data::ImageSet train, test;
};

// `choice` is a folder, "mnist", "synthetic" or empty (MNIST if possible). Throws if an explicit choice is not
// available.
Digits load_digits(const std::string& choice, bool may_download, bool quiet);

}  // namespace strata::cli
