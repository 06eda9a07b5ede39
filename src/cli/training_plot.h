// The picture of a training run: loss by step, test accuracy and speed by epoch.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace strata::cli {

struct EpochPoint {
  double loss, accuracy, images_per_second;  // accuracy in 0..1
};
struct TrainingCurve {
  std::string title;               // "small CNN on MNIST, cpu"
  std::vector<float> step_losses;  // of every step so far
  int64_t steps_per_epoch = 0;
  std::vector<EpochPoint> epochs;  // finished ones
};

std::string plot_svg(const TrainingCurve& curve);  // the text of an SVG file

}  // namespace strata::cli
