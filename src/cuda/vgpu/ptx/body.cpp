// PTX statements: scopes, registers, labels, instructions and their operands.
#include <fmt/core.h>

#include <charconv>
#include <cstring>

#include "base/error.h"
#include "cuda/vgpu/ptx/parser.h"

namespace strata::cuda::vgpu::ptx {

namespace {
constexpr size_t kDeepest = 200;  // nested braces

std::string collapsed(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  return out;
}
}  // namespace

int64_t Parser::integer() {
  const bool minus = accept("-");
  const Operand n = number(minus);
  if (n.kind != Operand::Integer) fail_here("expected an integer");
  return static_cast<int64_t>(n.bits);
}

Operand Parser::number(bool minus) {
  const Token t = peek();
  if (t.kind != Token::Number) fail_here(fmt::format("expected a number, found '{}'", t.text));
  take();
  Operand out;
  std::string_view s = t.text;
  const auto bad = [&]() { fail_at(source_, t.line, fmt::format("'{}' is not a number", t.text)); };
  const auto parse = [&](std::string_view digits, int base) {
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), out.bits, base);
    if (r.ec != std::errc() || r.ptr != digits.data() + digits.size() || digits.empty()) bad();
  };
  const char kind = s.size() > 1 && s[0] == '0' ? static_cast<char>(s[1] | 32) : ' ';
  if (kind == 'f' || kind == 'd') {
    if (s.size() != (kind == 'f' ? 10u : 18u)) bad();
    parse(s.substr(2), 16);
    out.kind = kind == 'f' ? Operand::Float32 : Operand::Float64;
    if (minus) out.bits ^= kind == 'f' ? uint64_t{1} << 31 : uint64_t{1} << 63;
    return out;
  }
  if (kind != 'x' && (s.find('.') != s.npos || s.find('e') != s.npos || s.find('E') != s.npos)) {
    double value = 0;
    const auto r = std::from_chars(s.data(), s.data() + s.size(), value);
    if (r.ec != std::errc() || r.ptr != s.data() + s.size()) bad();
    value = minus ? -value : value;
    std::memcpy(&out.bits, &value, sizeof value);
    out.kind = Operand::Float64;
    return out;
  }
  out.kind = Operand::Integer;
  if (s.back() == 'U') s.remove_suffix(1);
  if (kind == 'x') parse(s.substr(2), 16);
  else if (kind == 'b') parse(s.substr(2), 2);
  else parse(s, s.size() > 1 && s[0] == '0' ? 8 : 10);
  if (minus) out.bits = 0 - out.bits;
  return out;
}

Operand Parser::address() {
  Operand out;
  out.kind = Operand::Address;
  if (peek().kind == Token::Word) out.name = word("a register");
  else out.offset = integer();
  while (peek().is("+") || peek().is("-")) {
    const bool minus = take().is("-");
    const int64_t n = integer();
    out.offset += minus ? -n : n;
  }
  if (accept(",")) {
    const Operand place = operand();
    if (place.kind != Operand::Vector) fail_here("the coordinates of a tensor are a list in braces");
    out.items = place.items;
  }
  expect("]");
  return out;
}

Operand Parser::operand() {
  if (accept("[")) return address();
  Operand out;
  if (peek().is("{") || peek().is("(")) {
    const bool list = take().is("(");
    out.kind = list ? Operand::List : Operand::Vector;
    const char* end = list ? ")" : "}";
    if (accept(end)) return out;
    do {
      if (peek().is("{") || peek().is("(")) fail_here("a list inside a list");
      out.items.push_back(operand());
    } while (accept(","));
    expect(end);
    return out;
  }
  if (accept("!")) out.negated = true;
  if (peek().kind == Token::Number || peek().is("-")) {
    const bool minus = accept("-");
    return number(minus);
  }
  out.name = word("an operand");
  if (accept("|")) out.pair = word("a register");
  if (peek().is("+") || peek().is("-")) {
    const bool minus = take().is("-");
    out.offset = integer() * (minus ? -1 : 1);
  }
  return out;
}

void Parser::registers(Scope& scope) {
  if (accept(".v2") || accept(".v4")) fail_here("vector registers are not supported");
  const Token t = take();
  const Type type = t.text.size() > 1 ? type_named(t.text.substr(1)) : Type::None;
  if (type == Type::None || type == Type::B128)
    fail_at(source_, t.line, fmt::format("'{}' is not a register type", t.text));
  do {
    const std::string name = word("a register");
    if (accept("<")) {
      integer();
      expect(">");
      scope.prefixes[name] = type;
    } else {
      scope.registers[name] = type;
    }
  } while (accept(","));
  expect(";");
}

void Parser::body(Function& f) {
  f.scopes.emplace_back();
  expect("{");
  std::vector<uint32_t> open{0};
  while (!open.empty()) {
    if (peek().kind == Token::End) fail_here(fmt::format("the body of '{}' does not end", f.name));
    if (accept("{")) {
      if (open.size() > kDeepest) fail_here("braces nested too deep");
      f.scopes.emplace_back().parent = static_cast<int32_t>(open.back());
      open.push_back(static_cast<uint32_t>(f.scopes.size() - 1));
    } else if (accept("}")) {
      open.pop_back();
    } else {
      statement(f, open.back());
    }
  }
}

void Parser::statement(Function& f, uint32_t scope) {
  if (accept(";")) return;
  const Token& t = peek();
  Scope& s = f.scopes[scope];
  if (t.kind == Token::Word && t.text[0] == '.') {
    if (t.is(".loc")) return location();
    if (t.is(".file") || t.is(".pragma")) return skip_directive_line();
    if (accept(".reg")) return registers(s);
    const bool shared = accept(".shared"), local = !shared && accept(".local");
    if (shared || local || accept(".param")) {
      do {
        Variable v = variable(shared ? Space::Shared : local ? Space::Local : Space::Param, 0);
        s.variables[v.name] = std::move(v);
      } while (accept(","));
      return expect(";");
    }
    fail_here(fmt::format("unknown directive '{}' in a function", t.text));
  }
  if (t.kind == Token::Word && peek(1).is(":")) {
    const std::string label(take().text);
    take();
    if (accept(".branchtargets")) {
      auto& targets = s.branchlists[label];
      do { targets.push_back(word("a label")); } while (accept(","));
      return expect(";");
    }
    if (peek().is(".callprototype")) fail_here("indirect calls are not supported");
    if (!s.labels.emplace(label, static_cast<uint32_t>(f.body.size())).second)
      fail_here(fmt::format("label '{}' is defined twice", label));
    return;
  }
  instruction(f, scope);
}

void Parser::location() {  // .loc file line column, and more on the same line for inlined code
  const uint32_t line = take().line;
  if (peek().kind == Token::Number && peek(1).kind == Token::Number && peek().line == line && peek(1).line == line) {
    file_ = static_cast<uint32_t>(integer());
    cuda_line_ = static_cast<uint32_t>(integer());
  }
  skip_line(line);
}

void Parser::instruction(Function& f, uint32_t scope) {
  Instruction i;
  const char* begin = peek().text.data();
  i.line = peek().line;
  i.file = file_;
  i.cuda_line = cuda_line_;
  i.scope = scope;
  if (accept("@")) {
    i.guard_negated = accept("!");
    i.guard = word("a predicate");
  }
  std::string whole = word("an instruction");
  size_t dot = whole.find('.');
  i.op = whole.substr(0, dot);
  while (dot != std::string::npos) {
    const size_t next = whole.find('.', dot + 1);
    i.modifiers.push_back(whole.substr(dot + 1, next == std::string::npos ? next : next - dot - 1));
    dot = next;
  }
  if (!peek().is(";")) do {
      i.operands.push_back(operand());
    } while (accept(","));
  const char* end = peek().text.data();
  if (!peek().is(";")) fail_here(fmt::format("expected ';' after '{}', found '{}'", whole, peek().text));
  take();
  i.text = collapsed(std::string_view(begin, static_cast<size_t>(end - begin)));
  f.body.push_back(std::move(i));
}

}  // namespace strata::cuda::vgpu::ptx
