// PTX declarations: module directives, variables with initializers, function headers.
#include "cuda/vgpu/ptx/parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace strata::cuda::vgpu::ptx {

namespace {
constexpr uint64_t kLargestVariable = uint64_t{1} << 32;  // bytes; larger sizes are an error in the text
}

bool Instruction::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

const Function* Module::find(std::string_view name) const {
  const Function* declared = nullptr;
  for (const auto& f : functions) {
    if (f->name != name) continue;
    if (f->defined) return f.get();
    declared = f.get();
  }
  return declared;
}

Module parse(std::string_view text) { return Parser(text).run(); }

bool Parser::accept(std::string_view text) {
  if (!peek().is(text)) return false;
  take();
  return true;
}

void Parser::expect(std::string_view text) {
  if (!accept(text)) fail_here(fmt::format("expected '{}', found '{}'", text, peek().text));
}

std::string Parser::word(const char* what) {
  if (peek().kind != Token::Word) fail_here(fmt::format("expected {}, found '{}'", what, peek().text));
  return std::string(take().text);
}

Module Parser::run() {
  while (peek().kind != Token::End) top_level();
  if (module_.version == 0) fail_here("no .version directive: this is not PTX");
  return std::move(module_);
}

void Parser::skip_line(uint32_t line) {
  while (peek().kind != Token::End && peek().line == line) take();
}

void Parser::skip_section() {
  while (!peek().is("{")) {
    if (peek().kind == Token::End) fail_here("a .section without a body");
    take();
  }
  int depth = 0;
  do {
    if (peek().kind == Token::End) fail_here("a .section that does not end");
    depth += peek().is("{") ? 1 : peek().is("}") ? -1 : 0;
    take();
  } while (depth > 0);
}

void Parser::top_level() {
  if (accept(";")) return;
  const Token& t = peek();
  if (t.kind != Token::Word || t.text[0] != '.') fail_here(fmt::format("expected a directive, found '{}'", t.text));
  if (accept(".version")) {
    const std::string text(take().text);
    const size_t dot = text.find('.');
    module_.version = std::atoi(text.c_str()) * 10 + (dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1));
    if (module_.version < 10) fail_here(fmt::format("'.version {}' is not a version", text));
    return;
  }
  if (accept(".target")) {
    module_.target = word("an architecture");
    while (accept(",")) word("an option of .target");
    return;
  }
  if (t.is(".address_size")) {
    take();
    if (integer() != 64) fail_here("only .address_size 64 is known");
    return;
  }
  if (t.is(".file") && peek(1).kind == Token::Number && peek(2).kind == Token::String) {
    const uint32_t line = take().line;
    const auto index = static_cast<uint32_t>(integer());
    const std::string_view path = take().text;
    module_.files[index] = std::string(path.substr(path.find_last_of('/') + 1));
    return skip_line(line);
  }
  if (t.is(".file") || t.is(".loc") || t.is(".pragma")) return skip_directive_line();
  if (t.is(".section")) return skip_section();

  Space space = Space::Global;
  bool is_variable = false;
  uint32_t align = 0;
  for (;;) {
    if (accept(".visible") || accept(".extern") || accept(".weak") || accept(".common") || accept(".managed")) continue;
    if (accept(".entry")) return function(true);
    if (accept(".func")) return function(false);
    if (accept(".align")) {
      align = static_cast<uint32_t>(integer());
    } else if (accept(".global")) {
      is_variable = true;
    } else if (accept(".const")) {
      is_variable = true;
      space = Space::Const;
    } else if (accept(".shared")) {
      is_variable = true;
      space = Space::Shared;
    } else if (is_variable) {
      do { module_.variables.push_back(variable(space, align)); } while (accept(","));
      return expect(";");
    } else {
      fail_here(fmt::format("unknown directive '{}'", peek().text));
    }
  }
}

// .align 4 .b8 name[16] = {...}; qualifiers before the type may repeat.
Variable Parser::variable(Space space, uint32_t align) {
  Variable v;
  v.space = space;
  v.line = peek().line;
  uint64_t per = 1;
  for (;;) {
    if (accept(".align")) align = static_cast<uint32_t>(integer());
    else if (accept(".v2")) per = 2;
    else if (accept(".v4")) per = 4;
    else if (accept(".ptr") || accept(".global") || accept(".const") || accept(".shared") || accept(".local")) continue;
    else if (peek().kind == Token::Word && peek().text[0] == '.') {
      v.type = type_named(peek().text.substr(1));
      if (v.type == Type::None || v.type == Type::Pred)
        fail_here(fmt::format("'{}' is not a variable type", peek().text));
      take();
    } else break;
  }
  v.name = word("the name of a variable");
  uint64_t count = per;
  while (accept("[")) {
    if (accept("]")) {
      count = 0;
      continue;
    }
    const int64_t n = integer();
    if (n < 0 || (n > 0 && count > kLargestVariable / static_cast<uint64_t>(n)))
      fail_here(fmt::format("'{}' is too large", v.name));
    count *= static_cast<uint64_t>(n);
    expect("]");
  }
  v.bytes = count * static_cast<uint64_t>(size_of(v.type));
  v.align = align ? align : static_cast<uint32_t>(size_of(v.type)) * static_cast<uint32_t>(per);
  if (v.align == 0 || (v.align & (v.align - 1)) || v.align > 4096)
    fail_here(fmt::format("alignment {} of '{}' is not a power of two up to 4096", v.align, v.name));
  if (accept("=")) initialiser(v);
  return v;
}

void Parser::initialiser(Variable& v) {
  const auto size = static_cast<size_t>(size_of(v.type));
  const auto one = [&] {
    if (v.bytes != 0 && v.init.size() + size > v.bytes) fail_here(fmt::format("too many values for '{}'", v.name));
    uint64_t bits = 0;
    if (peek().kind == Token::Word) {
      std::string name = word("a variable");
      if (name == "generic") {
        expect("(");
        name = word("a variable");
        expect(")");
      }
      if (accept("+")) bits = static_cast<uint64_t>(integer());
      v.pointers.emplace_back(v.init.size(), std::move(name));
    } else {
      bits = number(accept("-")).bits;
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(&bits);
    v.init.insert(v.init.end(), bytes, bytes + std::min(size, sizeof bits));
  };
  const auto list = [&](const auto& self, int depth) -> void {
    if (depth > 8) fail_here("initialisers nested too deep");
    do {
      if (accept("{")) {
        if (!peek().is("}")) self(self, depth + 1);
        expect("}");
      } else {
        one();
      }
    } while (accept(","));
  };
  if (accept("{")) {
    if (!peek().is("}")) list(list, 0);
    expect("}");
  } else {
    one();
  }
  if (v.bytes == 0) v.bytes = v.init.size();
}

std::vector<Variable> Parser::parameters() {
  std::vector<Variable> out;
  expect("(");
  if (accept(")")) return out;
  do {
    if (!accept(".param") && !accept(".reg")) fail_here(fmt::format("expected .param, found '{}'", peek().text));
    out.push_back(variable(Space::Param, 0));
  } while (accept(","));
  expect(")");
  return out;
}

void Parser::function(bool entry) {
  auto f = std::make_unique<Function>();
  file_ = cuda_line_ = 0;
  f->entry = entry;
  f->line = peek().line;
  if (!entry && peek().is("(")) f->results = parameters();
  f->name = word("the name of a function");
  if (peek().is("(")) f->params = parameters();
  while (peek().kind == Token::Word) {
    const std::string directive = word("a directive");
    if (directive == ".maxntid" || directive == ".reqntid") {
      int64_t threads = integer();
      while (accept(",")) threads *= std::clamp<int64_t>(integer(), 0, 1 << 16);
      if (threads <= 0 || threads > 1024) fail_here(fmt::format("{} of {} threads", directive, threads));
      f->max_threads = static_cast<uint32_t>(threads);
    } else if (directive == ".reqnctapercluster") {
      int n = 0;
      do {
        if (n == 3) fail_here("a cluster has up to 3 dimensions");
        f->cluster[n++] = static_cast<uint32_t>(std::clamp<int64_t>(integer(), 0, 1 << 16));
      } while (accept(","));
      for (; n < 3; ++n) f->cluster[n] = 1;
    } else if (directive == ".minnctapersm") {
      f->least_blocks = static_cast<uint32_t>(std::clamp<int64_t>(integer(), 0, 64));
    } else if (directive == ".maxnreg") {
      f->max_registers = static_cast<uint32_t>(std::clamp<int64_t>(integer(), 0, 255));
    } else if (directive == ".maxnctapersm" || directive == ".maxclusterrank") {
      integer();
    } else if (directive != ".noreturn" && directive != ".explicitcluster") {
      fail_here(fmt::format("unknown directive '{}' of a function", directive));
    }
  }
  if (peek().is("{")) {
    f->defined = true;
    body(*f);
  } else {
    expect(";");
  }
  module_.functions.push_back(std::move(f));
}

}  // namespace strata::cuda::vgpu::ptx
