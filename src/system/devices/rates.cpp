// The throughput of multiprocessors. Ordinary cores: the table "Throughput of Native Arithmetic Instructions" of the CUDA
// C++ Programming Guide. Tensor cores: NVIDIA's paper about each architecture, as dense fused multiply-adds per clock and
// multiprocessor, which is what its peak in FLOP/s is made of: peak / (2 * multiprocessors * clock).
#include "system/devices/devices.h"

namespace strata::devices {
namespace {

constexpr Rates kRates[] = {
  {50, "Maxwell", 4, 128, 0, 0, 0, 0, 0, 0, 0, "CUDA C++ Programming Guide 12"},
  {60, "Pascal", 32, 64, 128, 0, 0, 0, 0, 0, 0, "Tesla P100 paper"},
  {61, "Pascal", 4, 128, 2, 0, 0, 0, 0, 0, 0, "CUDA C++ Programming Guide 12"},
  {70, "Volta", 32, 64, 128, 8, 0, 0, 512, 0, 0, "Tesla V100 paper: 125 TFLOP/s"},
  {75, "Turing", 2, 64, 128, 8, 0, 0, 512, 0, 1024, "Turing paper; Tesla T4: 65 TFLOP/s"},
  {80, "Ampere", 32, 64, 256, 4, 64, 512, 1024, 0, 2048, "A100 paper: 312 TFLOP/s"},
  {86, "Ampere", 2, 128, 128, 4, 0, 256, 512, 0, 1024,
   "GA102 paper; A40: 150 TFLOP/s. GeForce: half with float32 sums"},
  {89, "Ada", 2, 128, 128, 4, 0, 256, 512, 1024, 1024, "Ada paper; L40S: 362 TFLOP/s. GeForce: half with float32 sums"},
  {90, "Hopper", 64, 128, 256, 4, 128, 1024, 2048, 4096, 4096, "H100 paper: 989 TFLOP/s"},
  {100, "Blackwell", 64, 128, 256, 4, 0, 2048, 4096, 8192, 8192, "Blackwell paper; B200: 2.25 PFLOP/s"},
  {120, "Blackwell", 2, 128, 128, 4, 0, 256, 512, 1024, 1024, "RTX Blackwell paper. GeForce: half with float32 sums"},
};

}  // namespace

const Rates* rates_of(int capability) {
  const Rates* best = nullptr;
  for (const Rates& r : kRates)
    if (r.capability / 10 == capability / 10 && r.capability <= capability) best = &r;
  return best;
}

}  // namespace strata::devices
