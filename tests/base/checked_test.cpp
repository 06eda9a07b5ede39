#include "base/checked.h"

#include <gtest/gtest.h>

#include "base/host_memory.h"
#include "base/interrupt.h"

namespace strata {
namespace {

TEST(Checked, ComputesWhatFits) {
  EXPECT_EQ((Checked(7) * 6 + 1 - 3).get(), 40);
  EXPECT_EQ((Checked(INT64_MAX) - 1 + 1).get(), INT64_MAX);
}

TEST(Checked, ThrowsWhereArithmeticWouldWrap) {
  EXPECT_THROW(Checked(INT64_MAX) + 1, Error);
  EXPECT_THROW(Checked(INT64_MIN) - 1, Error);
  EXPECT_THROW(Checked(int64_t{1} << 32) * (int64_t{1} << 31), Error);
  EXPECT_THROW(Checked(0) - INT64_MIN, Error);
}

TEST(HostMemory, RefusesWhatCannotFit) {
  EXPECT_GT(host_memory(), size_t{1} << 20);
  check_host_memory(1000, 1000, "test");
  check_host_memory(-1, 1000, "test");
  EXPECT_THROW(check_host_memory(INT64_MAX, 8, "test"), Error);  // the product overflows
  EXPECT_THROW(check_host_memory(int64_t{1} << 50, 1, "test"), Error);
}

TEST(Interrupt, CallsTheHookNowAndThen) {
  static int calls = 0;
  set_interrupt_hook([] { ++calls; });
  for (int i = 0; i < 5000; ++i) poll_interrupt();
  set_interrupt_hook(nullptr);
  EXPECT_GE(calls, 4);
  EXPECT_LE(calls, 5);
}

}  // namespace
}  // namespace strata
