// The few functions of Highway's library that its headers call for run-time dispatch. Debian's shared library spends 8 to 12 ms
// measuring a timer when it is loaded, which is more than the rest of our start-up together.
#include <hwy/base.h>
#include <hwy/targets.h>

#include <cstdarg>
#include <cstdio>
#include <stdexcept>

namespace hwy {

int64_t SupportedTargets() {
  int64_t targets = HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c");
  if (__builtin_cpu_supports("sse4.2")) targets |= HWY_SSE4 | HWY_SSSE3;
  if (avx2) targets |= HWY_AVX2;
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd"))
    targets |= HWY_AVX3;
#endif
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

// Highway's own stops the process; the library never does.
void Abort(const char* file, int line, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw std::runtime_error(std::string("Highway: ") + text + " at " + file + ":" + std::to_string(line));
}

}  // namespace hwy
