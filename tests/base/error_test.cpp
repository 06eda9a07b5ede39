#include "base/error.h"

#include <cmath>

#include "base/ref.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Error, CheckFormatsAndKeepsTheKind) {
  EXPECT_ERROR(Index, "dim 7 is out of range", [] { STRATA_CHECK(false, Index, "dim {} is out of range", 7); }());
  EXPECT_ERROR(OutOfMemory, "", fail(ErrorKind::OutOfMemory, ""));
  EXPECT_NO_THROW([] { STRATA_CHECK(true, Value, "never"); }());
}

TEST(Error, CheckTakesNumbersAndTexts) {
  const std::string text = "text";
  const short small = -3;
  const unsigned char byte = 200;
  EXPECT_ERROR(Value, "-3 200 7 18446744073709551615 true c", [&] {
    STRATA_CHECK(false, Value, "{} {} {} {} {} {}", small, byte, size_t{7}, UINT64_MAX, true, 'c');
  }());
  EXPECT_ERROR(Value, "0.1 0.1 inf 1e+300",
               [] { STRATA_CHECK(false, Value, "{} {} {} {}", 0.1f, 0.1, HUGE_VAL, 1e300); }());
  EXPECT_ERROR(Value, "text text part literal", [&] {
    STRATA_CHECK(false, Value, "{} {} {} {}", text, text.c_str(), std::string_view("part of it").substr(0, 4),
                 "literal");
  }());
  EXPECT_ERROR(Value, "0a 000000ff {10}", [] { STRATA_CHECK(false, Value, "{:02x} {:08x} {{{}}}", 10, 255u, 10); }());
}

TEST(Error, AWrongFormatLosesNoError) {
  EXPECT_ERROR(Index, "{:d}", [] { STRATA_CHECK(false, Index, "found {:d}", "text"); }());
}

TEST(Error, CheckDoesNotFormatWhenItHolds) {
  int calls = 0;
  const auto cost = [&] { return ++calls; };
  STRATA_CHECK(true, Value, "{}", cost());
  EXPECT_EQ(calls, 0);
}

TEST(Error, AssertNamesConditionFileAndLineAndAsksForAReport) {
  EXPECT_ERROR(Internal, "'1 == 2' does not hold at", [] { STRATA_ASSERT(1 == 2); }());
  EXPECT_ERROR(Internal, "error_test.cpp", [] { STRATA_ASSERT(1 == 2); }());
  EXPECT_ERROR(Internal, "please report it", [] { STRATA_ASSERT(1 == 2); }());
}

TEST(Error, IsARuntimeError) { EXPECT_THROW(fail(ErrorKind::Io, "x"), std::runtime_error); }

struct Counted {
  std::atomic<int32_t> refs{1};
  bool* gone;
  static void destroy(Counted* c) {
    *c->gone = true;
    delete c;
  }
};
TEST(Ref, CountsAndMoves) {
  bool gone = false;
  auto a = Ref<Counted>::adopt(new Counted{{1}, &gone});
  auto b = a;
  EXPECT_EQ(a->refs.load(), 2);
  auto c = std::move(b);
  EXPECT_FALSE(b);  // NOLINT: a moved-from Ref is empty by contract
  EXPECT_EQ(a->refs.load(), 2);
  a = a;  // NOLINT: to itself
  EXPECT_EQ(c->refs.load(), 2);
  a = {};
  EXPECT_FALSE(gone);
  c = {};
  EXPECT_TRUE(gone);
}

TEST(Scoped, PutsTheValueBackAlsoAfterAnException) {
  int x = 1;
  try {
    const Scoped<int> scope(x, 2);
    EXPECT_EQ(x, 2);
    fail(ErrorKind::Value, "out");
  } catch (const Error&) {}
  EXPECT_EQ(x, 1);
}

}  // namespace
}  // namespace strata
