// Decodes control flow: branches, calls, exits, barriers.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "cuda/vgpu/decoder.h"
#include "cuda/vgpu/lanes/lanes.h"

namespace strata::cuda::vgpu {

namespace {
constexpr int kDeepestCall = 32;

void trap(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (m) fault(w, kLaunchFailed, "the kernel executed a trap", static_cast<uint32_t>(std::countr_zero(m)));
}

// places: where the arguments of __assertfail are in local memory: message, file, line, function.
void assert_failed(const Inst& i, Warp& w) {
  const uint32_t m = active(i, w);
  if (!m) return;
  const auto lane = static_cast<uint32_t>(std::countr_zero(m));
  const BlockState& b = *w.block;
  const uint8_t* local = b.local + (uint64_t{w.index} * kLanes + lane) * b.program->local_bytes;
  const uint32_t* at = &b.program->places[i.more];
  const auto text = [&](uint32_t place) {
    uint64_t address = 0;
    std::memcpy(&address, local + place, 8);
    std::string out;
    for (; out.size() < 400 && b.memory->valid(address, 1); ++address) {
      const char c = *reinterpret_cast<const char*>(address);
      if (!c) break;
      out += c;
    }
    return out;
  };
  uint32_t line = 0;
  std::memcpy(&line, local + at[2], 4);
  fault(w, kAssert, fmt::format("assertion '{}' failed at {}:{} in {}", text(at[0]), text(at[1]), line, text(at[3])),
        lane);
}
}  // namespace

uint32_t Decoder::label(const Frame& frame, const ptx::Instruction& in, const std::string& name) const {
  for (auto s = static_cast<int32_t>(in.scope); s >= 0; s = frame.function->scopes[static_cast<size_t>(s)].parent) {
    const auto& labels = frame.function->scopes[static_cast<size_t>(s)].labels;
    if (const auto l = labels.find(name); l != labels.end()) return l->second;
  }
  wrong(in, fmt::format("there is no label '{}'", name));
}

bool Decoder::control(uint32_t frame, const ptx::Instruction& in, int depth) {
  const std::string& op = in.op;
  if (op == "bra") {
    if (in.operands.size() != 1) wrong(in, "bra has one operand");
    branch(frame, in, label(*frame_, in, in.operands[0].name));
    return true;
  }
  if (op == "brx") {
    indexed(frame, in);
    return true;
  }
  if (op == "ret" && frame != 0) {  // return to the caller, after the inlined body
    branch(frame, in, static_cast<uint32_t>(frame_->function->body.size()));
    return true;
  }
  if (op == "ret" || op == "exit") {
    Builder b(*this, in);
    push(b.out, in, Class::Control, End::Exit, 0);
    return true;
  }
  if (op == "trap" || op == "brkpt") {
    Builder(*this, in).emit(trap, Class::Control);
    return true;
  }
  if (op == "call") {
    call(in, depth);
    return true;
  }
  if ((op == "bar" && !in.has("warp")) || (op == "barrier" && !in.has("cluster"))) {
    barrier(in);
    return true;
  }
  if (op == "barrier" && in.has("wait")) {
    Builder b(*this, in);
    b.ignore({"cluster", "wait", "acquire", "aligned"});
    b.operands(0, 0);
    b.emit_wait(WaitOp::Cluster);
    return true;
  }
  return false;
}

void Decoder::branch(uint32_t frame, const ptx::Instruction& in, uint32_t statement) {
  Builder b(*this, in);
  jumps_.push_back({push(b.out, in, Class::Control, End::Branch, 0), frame, statement});
}

void Decoder::indexed(uint32_t frame, const ptx::Instruction& in) {
  Builder b(*this, in);
  b.operands(2, 2);
  const std::vector<std::string>* targets = nullptr;
  for (auto s = static_cast<int32_t>(in.scope); s >= 0 && !targets;
       s = frame_->function->scopes[static_cast<size_t>(s)].parent) {
    const auto& lists = frame_->function->scopes[static_cast<size_t>(s)].branchlists;
    if (const auto l = lists.find(b.operand(1).name); l != lists.end()) targets = &l->second;
  }
  if (!targets) b.wrong(fmt::format("'{}' is not a list of branch targets", b.operand(1).name));
  b.out.a = b.src(0, Type::U32);
  b.out.imm = static_cast<int64_t>(program_.tables.size());
  const uint32_t at = push(b.out, in, Class::Control, End::Indexed, 0);
  program_.tables.emplace_back(targets->size());
  for (uint32_t k = 0; k < targets->size(); ++k)
    jumps_.push_back({at, frame, label(*frame_, in, (*targets)[k]), static_cast<uint32_t>(b.out.imm), k, true});
}

// Arguments and results are variables in local memory; the callee's parameters are aliases of the caller's.
void Decoder::call(const ptx::Instruction& in, int depth) {
  Builder b(*this, in);
  if (!in.guard.empty()) b.unsupported("a call under a predicate");
  if (depth >= kDeepestCall) b.unsupported("calls deeper than 32, or recursion");
  size_t k = 0;
  const bool has_results = b.count() > 0 && b.operand(0).kind == ptx::Operand::List;
  k += has_results;
  const std::string& name = b.operand(k).name;
  const ptx::Function* callee = module_.find(name);
  if (name == "__assertfail" && callee && !callee->defined && k + 1 < b.count() && b.operand(k + 1).items.size() >= 4) {
    std::vector<uint32_t> places;
    for (const auto& item : b.operand(k + 1).items) {
      const Name n = find(item.name, in.scope);
      if (n.kind != Name::Constant || n.space != Space::Local)
        b.unsupported("an argument that is not a .param variable");
      places.push_back(static_cast<uint32_t>(n.bits));
    }
    b.out.more = b.place_all(places);
    b.ignore({"uni"});
    return b.emit(assert_failed, Class::Control);
  }
  if (!callee || callee->entry)
    b.unsupported(fmt::format("a call of '{}', which is not a function of this module", name));
  if (!callee->defined) b.unsupported(fmt::format("a call of '{}', which has no body in this module", name));
  const std::vector<ptx::Operand> none;
  const auto& results = has_results ? b.operand(0).items : none;
  const auto& args = k + 1 < b.count() ? b.operand(k + 1).items : none;
  if (results.size() != callee->results.size() || args.size() != callee->params.size())
    b.wrong(fmt::format("'{}' has {} parameters and {} results", name, callee->params.size(), callee->results.size()));
  auto frame = std::make_unique<Frame>();
  frame->function = callee;
  const auto bind = [&](const ptx::Operand& o, const ptx::Variable& v) {
    const Name n = find(o.name, in.scope);
    if (n.kind != Name::Constant || n.space != Space::Local) b.unsupported("an argument that is not a .param variable");
    frame->params[v.name] = static_cast<uint32_t>(n.bits);
  };
  for (size_t r = 0; r < results.size(); ++r) bind(results[r], callee->results[r]);
  for (size_t a = 0; a < args.size(); ++a) bind(args[a], callee->params[a]);
  const auto id = static_cast<uint32_t>(frames_.size());
  frames_.push_back(std::move(frame));
  lay_out(*frames_[id], id, depth + 1);
}

// op: 0 sync, 1 arrive, 2 popc, 3 and, 4 or. count: 1 if the number of threads is given (b).
void Decoder::barrier(const ptx::Instruction& in) {
  Builder b(*this, in);
  Inst& i = b.out;
  b.ignore({"cta"});
  i.plain = b.flag("aligned") || in.op == "bar";  // all lanes of a warp must arrive together
  const bool red = b.flag("red");
  i.op = b.flag("arrive") ? 1 : !red ? 0 : b.flag("popc") ? 2 : b.flag("and") ? 3 : 4;
  b.ignore({"sync", "or"});
  size_t k = red ? 1 : 0;
  if (red) b.type();
  const size_t last = b.count() - (red ? 1 : 0);
  if (red) b.operands(3, 4);
  else b.operands(i.op == 1 ? 2 : 1, 2);
  i.a = b.src(k++, Type::U32);
  i.count = k < last;
  if (i.count) i.b = b.src(k, Type::U32);
  if (red) {
    i.c = b.predicate(b.operand(b.count() - 1), false);
    i.d = i.op == 2 ? b.dst(0, Type::U32) : b.predicate(b.operand(0), true);
  }
  push(i, in, Class::Barrier, End::Barrier, 0);
}

}  // namespace strata::cuda::vgpu
