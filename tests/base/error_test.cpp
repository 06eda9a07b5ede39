#include "base/error.h"

#include "base/ref.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Error, CheckFormatsAndKeepsTheKind) {
  EXPECT_ERROR(Index, "dim 7 is out of range", [] { STRATA_CHECK(false, Index, "dim {} is out of range", 7); }());
  EXPECT_ERROR(OutOfMemory, "", fail(ErrorKind::OutOfMemory, ""));
  EXPECT_NO_THROW([] { STRATA_CHECK(true, Value, "never"); }());
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
