// Lays out a kernel: offsets of registers and constants, addresses of variables, inlined calls, basic blocks.
#include "cuda/vgpu/decoder.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "cuda/vgpu/warp.h"

namespace strata::cuda::vgpu {

namespace {
constexpr uint64_t kMostRegisterBytes = uint64_t{1} << 26, kMostLocalBytes = 512 << 10;

std::string key(int32_t scope, const std::string& name) { return fmt::format("{}:{}", scope, name); }

bool special(const std::string& n) {
  static constexpr std::string_view kNames[] = {"%tid.x",
                                                "%tid.y",
                                                "%tid.z",
                                                "%ntid.x",
                                                "%ntid.y",
                                                "%ntid.z",
                                                "%ctaid.x",
                                                "%ctaid.y",
                                                "%ctaid.z",
                                                "%nctaid.x",
                                                "%nctaid.y",
                                                "%nctaid.z",
                                                "%laneid",
                                                "%warpid",
                                                "%nwarpid",
                                                "%smid",
                                                "%nsmid",
                                                "%lanemask_eq",
                                                "%lanemask_lt",
                                                "%lanemask_le",
                                                "%lanemask_gt",
                                                "%lanemask_ge",
                                                "%dynamic_smem_size",
                                                "%total_smem_size",
                                                "%cluster_ctarank",
                                                "%cluster_nctarank"};
  for (const std::string_view name : {"%clusterid.", "%nclusterid.", "%cluster_ctaid.", "%cluster_nctaid."})
    if (n.size() == name.size() + 1 && n.starts_with(name) && n.back() >= 'x' && n.back() <= 'z') return true;
  return std::find(std::begin(kNames), std::end(kNames), n) != std::end(kNames);
}
}  // namespace

Program decode(const ptx::Module& module, const ptx::Function& entry, const Symbols& symbols) {
  return Decoder(module, symbols).run(entry);
}

void Decoder::wrong(const ptx::Instruction& in, const std::string& what) const {
  fail(ErrorKind::Value, fmt::format("PTX line {}: {} (kernel '{}')\n  {}", in.line, what, program_.name, in.text));
}

uint32_t Decoder::reserve(int bytes) {
  const uint32_t place = top_;
  top_ += bytes == 0 ? 64 : 32 * static_cast<uint32_t>(bytes);
  STRATA_CHECK(top_ < kMostRegisterBytes, Value, "kernel '{}' has more registers than the virtual GPU can hold",
               program_.name);
  return place;
}

uint32_t Decoder::constant(uint64_t bits, int bytes, bool dynamic) {
  if (bytes == 4) bits &= 0xffffffff;
  const auto [at, fresh] = constants_.try_emplace({dynamic ? bytes + 16 : bytes, bits}, 0);
  if (!fresh) return at->second;
  at->second = reserve(bytes);
  if (bytes == 8) {
    if (dynamic) dynamic_longs_.push_back(program_.longs.size());
    program_.longs.emplace_back(at->second, bits);
  } else {
    if (dynamic) dynamic_words_.push_back(program_.words.size());
    program_.words.emplace_back(at->second, static_cast<uint32_t>(bits));
  }
  return at->second;
}

uint32_t Decoder::local_address(const ptx::Variable& v) {
  uint32_t& top = v.space == Space::Shared ? program_.shared_bytes : program_.local_bytes;
  const uint32_t begin = (top + v.align - 1) & ~(v.align - 1);
  STRATA_CHECK(v.bytes <= kMostLocalBytes && begin + v.bytes <= kMostLocalBytes, Value,
               "PTX line {}: '{}' of {} bytes does not fit into {} memory", v.line, v.name, v.bytes,
               v.space == Space::Shared ? "shared" : "local");
  top = begin + static_cast<uint32_t>(v.bytes);
  return begin;
}

Decoder::Name Decoder::find(const std::string& name, uint32_t scope) {
  Name out;
  Frame& frame = *frame_;
  const auto in_register = [&](Register r) {
    out.kind = Name::InRegister;
    out.reg = r;
    return out;
  };
  for (auto s = static_cast<int32_t>(scope); s >= 0; s = frame.function->scopes[static_cast<size_t>(s)].parent) {
    const ptx::Scope& names = frame.function->scopes[static_cast<size_t>(s)];
    auto& places = frame.registers[static_cast<size_t>(s)];
    if (const auto r = places.find(name); r != places.end()) return in_register(r->second);
    Type type = Type::None;
    if (const auto r = names.registers.find(name); r != names.registers.end()) {
      type = r->second;
    } else if (const size_t digits = name.find_last_not_of("0123456789"); digits + 1 < name.size()) {
      if (const auto p = names.prefixes.find(name.substr(0, digits + 1)); p != names.prefixes.end()) type = p->second;
    }
    if (type != Type::None) {
      const int bytes = type == Type::Pred ? 0 : size_of(type) == 8 ? 8 : 4;
      return in_register(places[name] = {reserve(bytes), type});
    }
    if (const auto v = names.variables.find(name); v != names.variables.end()) {
      const auto [at, fresh] = frame.variables.try_emplace(key(s, name), 0);
      if (fresh) at->second = local_address(v->second);
      out.kind = Name::Constant;
      out.bits = at->second;
      out.space = v->second.space == Space::Shared ? Space::Shared : Space::Local;
      return out;
    }
  }
  if (name[0] == '%') {
    auto& places = frames_[0]->registers[0];
    if (const auto r = places.find(name); r != places.end() && special(name)) return in_register(r->second);
    if (name == "WARP_SZ" || !special(name)) return out;
    const Register r{reserve(4), Type::U32};
    program_.specials.emplace_back(r.place, name);
    return in_register(places[name] = r);
  }
  out.kind = Name::Constant;
  if (name == "WARP_SZ") {
    out.bits = kLanes;
    return out;
  }
  if (const auto p = frame.params.find(name); p != frame.params.end()) {
    out.bits = p->second;
    out.space = frame.function->entry ? Space::Param : Space::Local;
    return out;
  }
  if (const auto g = symbols_.find(name); g != symbols_.end()) {
    out.bits = g->second;
    return out;
  }
  for (const auto& v : module_.variables) {
    if (v.name != name || v.space != Space::Shared) continue;
    out.space = Space::Shared;
    out.dynamic = v.bytes == 0;
    if (out.dynamic) {
      dynamic_align_ = std::max(dynamic_align_, v.align);
      return out;
    }
    const auto [at, fresh] = frames_[0]->variables.try_emplace(key(-1, name), 0);
    if (fresh) at->second = local_address(v);
    out.bits = at->second;
    return out;
  }
  out.kind = Name::Unknown;
  return out;
}

uint32_t Decoder::push(const Inst& i, const ptx::Instruction& in, Class counted, End end, uint32_t members) {
  program_.code.push_back(i);
  const auto file = module_.files.find(in.file);
  program_.source.push_back(
    {in.line, in.text, file == module_.files.end() ? "CUDA source" : file->second, in.cuda_line});
  classes_.push_back(counted);
  ends_.push_back(end);
  members_.push_back(members);
  return static_cast<uint32_t>(program_.code.size() - 1);
}

Program Decoder::run(const ptx::Function& entry) {
  program_.name = entry.name;
  if (entry.max_threads) program_.max_threads = entry.max_threads;
  std::copy_n(entry.cluster, 3, program_.cluster);
  auto frame = std::make_unique<Frame>();
  frame->function = &entry;
  for (const auto& p : entry.params) {
    const uint32_t begin = (program_.param_bytes + p.align - 1) & ~(p.align - 1);
    STRATA_CHECK(p.bytes <= 32764 && begin + p.bytes <= 32764, Value,
                 "kernel '{}' has more than 32764 bytes of parameters", entry.name);
    frame->params[p.name] = begin;
    program_.params.push_back({p.name, begin, static_cast<uint32_t>(p.bytes)});
    program_.param_bytes = begin + static_cast<uint32_t>(p.bytes);
  }
  frames_.push_back(std::move(frame));
  lay_out(*frames_[0], 0, 0);
  // Falling off the end exits the kernel.
  ptx::Instruction last;
  last.text = "exit";
  last.line = entry.line;
  push(Inst{}, last, Class::Control, End::Exit, 0);
  program_.shared_bytes = (program_.shared_bytes + dynamic_align_ - 1) & ~(dynamic_align_ - 1);
  program_.local_bytes = (program_.local_bytes + 15) & ~15u;
  for (size_t k : dynamic_words_) program_.words[k].second += program_.shared_bytes;
  for (size_t k : dynamic_longs_) program_.longs[k].second += program_.shared_bytes;
  form_blocks();
  count_registers();
  program_.register_bytes = (top_ + 255) & ~255u;
  return std::move(program_);
}

void Decoder::lay_out(Frame& frame, uint32_t id, int depth) {
  Frame* const outer = frame_;
  frame_ = &frame;
  frame.registers.resize(frame.function->scopes.size());
  for (const auto& in : frame.function->body) {
    frame.position.push_back(static_cast<uint32_t>(program_.code.size()));
    instruction(id, in, depth);
  }
  frame.position.push_back(static_cast<uint32_t>(program_.code.size()));
  frame_ = outer;
}

void Decoder::instruction(uint32_t frame, const ptx::Instruction& in, int depth) {
  if (control(frame, in, depth)) return;
  static constexpr bool (*kSelect[])(Builder&) = {
    select_memory,  select_move, select_integer,  select_float,    select_compare, select_bits,
    select_convert, select_half, select_exchange, select_atomic,   select_bulk,    select_async,
    select_matrix,  select_wmma, select_wgmma,    select_mbarrier, select_cluster};
  for (auto* select : kSelect) {
    Builder b(*this, in);  // a new one each: queries of a file that declined must not count
    if (select(b)) return;
  }
  Builder(*this, in).unsupported();
}

// Leaders: jump targets, what follows a terminator, and instructions that wait for other lanes.
void Decoder::form_blocks() {
  Program& p = program_;
  const auto n = static_cast<uint32_t>(p.code.size());
  std::vector<bool> leader(n + 1, false);
  leader[0] = true;
  const auto target = [&](const Jump& j) { return std::min(frames_[j.frame]->position[j.statement], n - 1); };
  for (const Jump& j : jumps_) leader[target(j)] = true;
  for (uint32_t k = 0; k < n; ++k) {
    if (ends_[k] != End::Fall) leader[k + 1] = true;
    if (members_[k]) leader[k] = true;
  }
  std::vector<uint32_t> block_of(n);
  for (uint32_t k = 0; k < n; ++k) {
    if (leader[k]) {
      p.blocks.emplace_back();
      p.blocks.back().first = p.blocks.back().last = k;
      p.blocks.back().together = members_[k] != 0;
      p.blocks.back().members = members_[k];
    }
    BasicBlock& b = p.blocks.back();
    block_of[k] = static_cast<uint32_t>(p.blocks.size() - 1);
    ++b.instructions;
    ++b.mix[static_cast<size_t>(classes_[k])];
    b.end = ends_[k];
    b.terminator = k;
    if (ends_[k] == End::Fall) b.last = k + 1;
  }
  for (const Jump& j : jumps_) {
    const uint32_t to = block_of[target(j)];
    if (j.indexed) p.tables[j.table][j.slot] = to;
    else p.blocks[block_of[j.at]].target = to;
  }
}

// Estimates the registers that a compiler would need: the most 32-bit registers alive at once, each from its first to
// its last use, extended by backward jumps. Includes constants and addresses that a compiler would fold.
void Decoder::count_registers() {
  const auto n = static_cast<uint32_t>(program_.code.size());
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> spans;  // place to first and last instruction
  std::map<uint32_t, int> width;
  for (const auto& frame : frames_)
    for (const auto& scope : frame->registers)
      for (const auto& [name, r] : scope)
        if (r.type != Type::Pred && !special(name)) width[r.place] = size_of(r.type) == 8 ? 2 : 1;
  for (uint32_t k = 0; k < n; ++k) {
    const Inst& i = program_.code[k];
    const auto touch = [&](uint32_t place) {
      if (!width.count(place)) return;
      auto [at, fresh] = spans.try_emplace(place, k, k);
      if (!fresh) at->second.second = k;
    };
    for (uint32_t place : {i.d, i.a, i.b, i.c}) touch(place);
    const size_t more = i.run && i.more + i.count <= program_.places.size() ? i.count : 0;
    for (size_t e = 0; e < more && e < 16; ++e) touch(program_.places[i.more + e]);
  }
  std::vector<int> change(n + 1, 0);
  for (auto& [place, span] : spans) {
    for (const Jump& j : jumps_) {
      const uint32_t to = frames_[j.frame]->position[j.statement];
      if (to < j.at && span.first < to && span.second >= to) span.second = std::max(span.second, j.at);
    }
    change[span.first] += width[place];
    change[span.second + 1 <= n ? span.second + 1 : n] -= width[place];
  }
  int alive = 0, most = 0;
  for (int c : change) most = std::max(most, alive += c);
  program_.registers = static_cast<uint32_t>(std::clamp(most + 4, 16, 255));
  // The compiler respects the kernel's limits; it spills the rest.
  const ptx::Function& entry = *frames_[0]->function;
  const auto hold = [&](uint32_t most) { program_.registers = std::min(program_.registers, std::max(16u, most)); };
  if (entry.max_registers) hold(entry.max_registers);
  if (entry.max_threads) hold(65536 / (std::max(entry.max_threads, 32u) * std::max(entry.least_blocks, 1u)) / 8 * 8);
}

}  // namespace strata::cuda::vgpu
