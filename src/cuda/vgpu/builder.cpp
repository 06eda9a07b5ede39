// Modifiers and operands of one instruction.
#include "cuda/vgpu/builder.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "cuda/vgpu/decoder.h"
#include "cuda/vgpu/lanes/lanes.h"

namespace strata::cuda::vgpu {

namespace {
int cell_bytes(Type t) { return size_of(t) == 8 ? 8 : 4; }
void negate(const Inst& i, Warp& w) { set_mask(w, i.d, w.mask, ~mask_at(w, i.a)); }
}  // namespace

Builder::Builder(Decoder& decoder, const ptx::Instruction& instruction)
    : in(instruction), decoder_(decoder), known_(instruction.modifiers.size(), false) {
  if (in.guard.empty()) return;
  ptx::Operand guard;
  guard.name = in.guard;
  out.guard = predicate(guard, false);
  out.guard_flip = in.guard_negated ? kFull : 0;
}

bool Builder::flag(std::string_view modifier) {
  bool found = false;
  for (size_t k = 0; k < known_.size(); ++k)
    if (in.modifiers[k] == modifier) known_[k] = found = true;
  return found;
}

void Builder::ignore(std::initializer_list<std::string_view> modifiers) {
  for (auto m : modifiers) flag(m);
}

Type Builder::type() {
  for (size_t k = 0; k < known_.size(); ++k)
    if (const Type t = known_[k] ? Type::None : type_named(in.modifiers[k]); t != Type::None) {
      known_[k] = true;
      return t;
    }
  return Type::None;
}

void Builder::rounding() {
  out.rounding = flag("rz")   ? Rounding::Zero
                 : flag("rm") ? Rounding::Down
                 : flag("rp") ? Rounding::Up
                              : Rounding::Nearest;
  flag("rn");
}

Space Builder::space() {
  constexpr std::pair<std::string_view, Space> kSpaces[] = {
    {"global", Space::Global},      {"shared", Space::Shared},
    {"shared::cta", Space::Shared}, {"shared::cluster", Space::Shared},
    {"local", Space::Local},        {"const", Space::Const},
    {"param", Space::Param},        {"param::entry", Space::Param},
    {"param::func", Space::Param}};
  for (const auto& [name, space] : kSpaces)
    if (flag(name)) return space;
  return Space::Generic;
}

void Builder::operands(size_t least, size_t most) const {
  if (count() < least || count() > most)
    wrong(least == most ? fmt::format("{} operands instead of {}", count(), least)
                        : fmt::format("{} operands instead of {} to {}", count(), least, most));
}

const ptx::Operand& Builder::operand(size_t k) const {
  if (k >= count()) wrong("an operand is missing");
  return in.operands[k];
}

Program& Builder::program() { return decoder_.program_; }

uint32_t Builder::any_dst(const ptx::Operand& o, uint8_t& bytes) {
  if (o.kind != ptx::Operand::Name || o.negated || o.offset) wrong("the result must be a register");
  const auto name = decoder_.find(o.name, in.scope);
  if (name.kind != Decoder::Name::InRegister || name.reg.type == Type::Pred)
    wrong(fmt::format("'{}' is not a register for this result", o.name));
  bytes = static_cast<uint8_t>(cell_bytes(name.reg.type));
  return name.reg.place;
}

uint32_t Builder::dst(const ptx::Operand& o, Type type) {
  if (o.kind == ptx::Operand::Name && o.name == "_") return scratch(cell_bytes(type));
  uint8_t bytes = 0;
  const uint32_t place = any_dst(o, bytes);
  if (bytes != cell_bytes(type)) wrong(fmt::format("register '{}' does not hold .{}", o.name, name_of(type)));
  return place;
}

uint32_t Builder::any_src(const ptx::Operand& o, Type type, uint8_t& bytes) {
  bytes = static_cast<uint8_t>(cell_bytes(type));
  switch (o.kind) {
    case ptx::Operand::Integer:
      if (type == Type::F32 || type == Type::F64) wrong("an integer where a floating-point number is needed");
      return constant(o.bits, bytes);
    case ptx::Operand::Float32:
      return constant(type == Type::F64 ? std::bit_cast<uint64_t>(
                                            static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(o.bits))))
                                        : o.bits,
                      bytes);
    case ptx::Operand::Float64:
      return constant(
        size_of(type) == 4 ? std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(o.bits))) : o.bits,
        bytes);
    case ptx::Operand::Name: break;
    default: wrong("an operand of the wrong kind");
  }
  if (o.negated) wrong("only a predicate can be negated");
  const auto name = decoder_.find(o.name, in.scope);
  if (name.kind == Decoder::Name::Constant)
    return decoder_.constant(name.bits + static_cast<uint64_t>(o.offset), bytes, name.dynamic);
  if (name.kind == Decoder::Name::Unknown) wrong(fmt::format("'{}' is not declared", o.name));
  if (name.reg.type == Type::Pred) wrong(fmt::format("'{}' is a predicate", o.name));
  bytes = static_cast<uint8_t>(cell_bytes(name.reg.type));
  return name.reg.place;
}

uint32_t Builder::src(const ptx::Operand& o, Type type) {
  if (type == Type::None) unsupported();
  uint8_t bytes = 0;
  const uint32_t place = any_src(o, type, bytes);
  if (bytes != cell_bytes(type)) wrong(fmt::format("register '{}' does not hold .{}", o.name, name_of(type)));
  return place;
}

uint32_t Builder::predicate(const ptx::Operand& o, bool written) {
  if (o.kind == ptx::Operand::Integer && !written) return constant(o.bits ? kFull : 0, 4);
  if (o.kind != ptx::Operand::Name) wrong("a predicate is needed here");
  if (written && o.name == "_") return scratch(4);
  const auto name = decoder_.find(o.name, in.scope);
  if (name.kind != Decoder::Name::InRegister || name.reg.type != Type::Pred)
    wrong(fmt::format("'{}' is not a predicate", o.name));
  if (!o.negated) return name.reg.place;
  if (written) wrong("a result cannot be negated");
  Inst i;
  i.run = negate;
  i.a = name.reg.place;
  i.d = scratch(4);
  decoder_.push(i, in, Class::Predicate, End::Fall, 0);
  return i.d;
}

uint32_t Builder::constant(uint64_t bits, int bytes) { return decoder_.constant(bits, bytes); }
uint32_t Builder::scratch(int bytes) { return decoder_.reserve(bytes); }
uint32_t Builder::place(uint32_t p) {
  program().places.push_back(p);
  return static_cast<uint32_t>(program().places.size() - 1);
}

uint32_t Builder::place_all(const std::vector<uint32_t>& all) {
  auto& places = program().places;
  const auto first = static_cast<uint32_t>(places.size());
  places.insert(places.end(), all.begin(), all.end());
  return first;
}

void Builder::address(size_t k, Space space) {
  const ptx::Operand& o = operand(k);
  if (o.kind != ptx::Operand::Address) wrong("an address in brackets is needed here");
  out.space = space;
  out.imm = o.offset;
  out.a_bytes = 8;
  if (o.name.empty()) {
    out.a = constant(0, 8);
    return;
  }
  const auto name = decoder_.find(o.name, in.scope);
  if (name.kind == Decoder::Name::Unknown) wrong(fmt::format("'{}' is not declared", o.name));
  if (name.kind == Decoder::Name::InRegister) {
    out.a = name.reg.place;
    out.a_bytes = static_cast<uint8_t>(cell_bytes(name.reg.type));
    if (name.reg.type == Type::Pred || size_of(name.reg.type) < 4) wrong(fmt::format("'{}' is not an address", o.name));
    return;
  }
  out.a = decoder_.constant(name.bits, 8, name.dynamic);
  if (space == Space::Generic) {
    if (name.space != Space::Global && name.space != Space::Const) out.space = name.space;
  } else if (space == Space::Param) {
    out.space = name.space;  // parameters of an inlined call are in local memory
  }
}

void Builder::memory(Space space) {
  out.site = static_cast<uint32_t>(program().sites.size());
  program().sites.push_back(space);
}

void Builder::emit(Handler handler, Class counted) { emit_together(handler, counted, 0); }

void Builder::emit_wait(WaitOp op) {
  refuse_unknown();
  out.op = static_cast<uint8_t>(op);
  decoder_.push(out, in, Class::Barrier, End::Wait, 0);
}

void Builder::refuse_unknown() const {
  for (size_t k = 0; k < known_.size(); ++k)
    if (!known_[k]) unsupported(fmt::format("modifier '.{}'", in.modifiers[k]));
}

void Builder::emit_together(Handler handler, Class counted, uint32_t members) {
  refuse_unknown();
  out.run = handler;
  decoder_.push(out, in, counted, End::Fall, members);
}

void Builder::unsupported(std::string_view why) const {
  fail(ErrorKind::NotImplemented,
       fmt::format("PTX line {}: unsupported instruction '{}'{}{} in kernel '{}'\n  {}", in.line,
                   in.text.substr(0, in.text.find(' ', in.guard.empty() ? 0 : in.text.find(' ') + 1)),
                   why.empty() ? "" : ": ", why, decoder_.program_.name, in.text));
}

void Builder::wrong(const std::string& what) const { decoder_.wrong(in, what); }

}  // namespace strata::cuda::vgpu
