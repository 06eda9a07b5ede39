// EXPECT_ERROR(kind, "part of the text", expression): the expression throws strata::Error of this kind, with this text.
#pragma once
#include <fmt/core.h>

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace strata::testing {

template <class F> std::string error_problem(ErrorKind kind, const std::string& text, F f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.kind() != kind)
      return fmt::format("kind {} instead of {}: {}", static_cast<int>(e.kind()), static_cast<int>(kind), e.what());
    if (std::string(e.what()).find(text) == std::string::npos)
      return fmt::format("expected '{}' in '{}'", text, e.what());
    return {};
  } catch (const std::exception& e) { return fmt::format("not a strata::Error: {}", e.what()); }
  return fmt::format("nothing was thrown; expected '{}'", text);
}

}  // namespace strata::testing

#define EXPECT_ERROR(kind, text, ...) \
  EXPECT_EQ(                          \
    ::strata::testing::error_problem(::strata::ErrorKind::kind, text, [&] { static_cast<void>(__VA_ARGS__); }), "")
