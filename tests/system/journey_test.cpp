#include "system/explain/journey.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Journey, HasTheLayersOfACallInOrder) {
  const Tensor a = ones({3}), b = full({3}, 2.0);
  const journey::Journey j = journey::follow([&] { return std::vector{add(a, b)}; });
  ASSERT_EQ(j.steps.size(), 1u);
  std::string layers;
  for (const journey::Layer& l : j.steps[0].layers) layers += l.name + " ";
  EXPECT_EQ(layers, "call binding record autograd kernels memory launch code cost ");
  ASSERT_EQ(j.results.size(), 1u);
  EXPECT_EQ(j.results[0].name + " " + j.results[0].value, "float32[3] [3., 3., 3.]");
  EXPECT_EQ(j.steps[0].find("kernels")->facts[0].value, "flat_simd");
  EXPECT_EQ(j.steps[0].find("no such layer"), nullptr);
  EXPECT_EQ(nlohmann::json::parse(j.to_json())["steps"].size(), 1u);
  EXPECT_NE(j.to_text().find("flat_simd (own): chosen"), std::string::npos);
}

TEST(Journey, EndsItsRecordingWhenTheCallFails) {
  EXPECT_ERROR(Runtime, "nothing",
               journey::follow([]() -> std::vector<Tensor> { fail(ErrorKind::Runtime, "nothing"); }));
  tracing::start();
  EXPECT_ERROR(Runtime, "a recording is running", journey::follow([] { return std::vector<Tensor>(); }));
  EXPECT_TRUE(tracing::stop().events.empty());
}

TEST(InnerLoop, IsTheInnermostOneWithArithmetic) {
  const std::string ptx = R"(.visible .entry k(
)
{
$outer:
	add.s32 %r1, %r1, 1;
$copies:
	ld.global.f32 %f1, [%rd1];
	st.global.f32 [%rd2], %f1;
	@%p1 bra $copies;
$computes:
	ld.global.f32 %f2, [%rd1];
	fma.rn.f32 %f3, %f2, %f2, %f3;
	fma.rn.f32 %f4, %f2, %f2, %f4;
	@%p2 bra $computes;
	@%p3 bra $outer;
	ret;
}
)";
  const journey::InnerLoop found = journey::inner_loop(ptx, 5);
  EXPECT_TRUE(found.is_loop);
  EXPECT_EQ(found.lines,
            (std::vector<std::string>{"$computes:", "ld.global.f32 %f2, [%rd1];", "fma.rn.f32 %f3, %f2, %f2, %f3;",
                                      "fma.rn.f32 %f4, %f2, %f2, %f4;", "@%p2 bra $computes;"}));
  EXPECT_EQ(found.first_line, 10u);
}

TEST(InnerLoop, MayBeABlockOrNothing) {
  EXPECT_TRUE(journey::inner_loop("").lines.empty());
  EXPECT_TRUE(journey::inner_loop("mov.u32 %r1, 0;\nret;").lines.empty());
  const journey::InnerLoop block = journey::inner_loop("mov.u32 %r1, 0;\nadd.f32 %f1, %f1, %f2;\nret;");
  EXPECT_FALSE(block.is_loop);
  EXPECT_EQ(block.lines.size(), 3u);
  EXPECT_TRUE(journey::inner_loop("bra").lines.empty());
  EXPECT_TRUE(journey::inner_loop("a:\nb:\n@%p bra ;\n:\nbra b;").lines.empty());
}

}  // namespace
}  // namespace strata
