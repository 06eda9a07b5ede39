// The file in which a GPU's measurements of tuning are kept, so that later processes use them.
//
// One file per GPU, driver and versions of the libraries whose kernels compete: times of another machine are never read.
// It is text that a person can read; entries that are broken, or name kernels that this version does not have, are
// ignored.
#pragma once
#include <map>
#include <string>

#include "record/op.h"

namespace strata {

using KernelTimes = std::map<std::string, double>;       // microseconds by the name of a kernel
using TuningTable = std::map<std::string, KernelTimes>;  // by the signature of a call

// Everything about a call that decides which kernel is fastest: "mm(bfloat16[64,64] strides 64,1, ...) -> ...".
std::string signature_of(const Call& c);

// In the folder of caches, tuning/<device>.json; "" on the CPU, or if nothing is cached (cuda/runtime/kernel_cache.h).
STRATA_API std::string tuning_file(Device device);
STRATA_API TuningTable read_tuning(Device device);              // empty if there is none that fits
void write_tuning(Device device, const TuningTable& measured);  // adds to the file; throws Io

}  // namespace strata
