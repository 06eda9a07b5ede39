// C++ source as text: which characters are code, words, matching brackets. Not a parser: enough to find declarations.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace strata::cuda {

class SourceText {
 public:
  // Preprocessor lines count as code if `with_directives` is set, for searches that apply to macros too.
  explicit SourceText(std::string_view text, bool with_directives = false);

  std::string_view text() const { return text_; }
  size_t size() const { return text_.size(); }
  // The character at `at`, or a space if it is in a comment, a string, a character or a preprocessor line.
  char code(size_t at) const { return code_[at]; }
  std::string_view code(size_t begin, size_t end) const { return std::string_view(code_).substr(begin, end - begin); }
  // Whether the line of a preprocessor directive begins at `at`; and where it ends, with its continuation lines.
  bool begins_directive(size_t at) const { return directive_[at] != 0; }
  size_t end_of_directive(size_t at) const { return at + directive_[at]; }

  size_t skip_blank(size_t at, size_t end) const;       // the next code or directive
  size_t closing(size_t open, size_t end) const;        // of ( [ or {: the matching bracket, or `end`
  size_t closing_angle(size_t open, size_t end) const;  // of < as a bracket of a template
  size_t opening_angle(size_t close) const;             // of >, backwards; npos if there is none
  bool has_word(size_t begin, size_t end, std::string_view word) const;

 private:
  void blank(size_t begin, size_t end);
  size_t end_of_text(size_t at) const;  // of the comment, string or character that begins at `at`, or `at`
  std::string_view text_;
  std::string code_;
  std::vector<size_t> directive_;  // length of the directive that begins here, otherwise 0
};

bool in_word(char c);
// The words of a text: "const float* x" has const, float, x.
std::vector<std::string_view> words_of(std::string_view text);
std::string_view without_spaces_around(std::string_view text);
// Split at commas outside of brackets, also angle brackets.
std::vector<std::string_view> split_at_commas(std::string_view text);

}  // namespace strata::cuda
