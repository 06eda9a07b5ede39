// Where the facts about devices come from; for devices.cpp.
#pragma once
#include "system/devices/devices.h"

namespace strata::devices {

Info cpu_info();
Load cpu_load();
const char* simd_level();
std::vector<Info> gpu_infos();
std::vector<Load> gpu_loads();
void measure_into(Info& info);

std::string gib(uint64_t bytes);                            // "15.9 GiB"
std::string per_second(double v, const std::string& unit);  // "989 TFLOP/s"

}  // namespace strata::devices
