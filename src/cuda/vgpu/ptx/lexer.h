// PTX text into tokens, with the line of each.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cuda::vgpu::ptx {

struct Token {
  enum Kind : uint8_t { End, Word, Number, String, Punctuation };
  Kind kind = End;
  uint32_t line = 1;
  std::string_view text;
  bool is(std::string_view what) const { return kind != String && text == what; }
};

std::vector<Token> tokens_of(std::string_view text);  // the last is End

// Throws Error(Value): "PTX line 7: what was wrong\n  text of the line".
[[noreturn]] void fail_at(std::string_view source, uint32_t line, const std::string& what);

}  // namespace strata::cuda::vgpu::ptx
