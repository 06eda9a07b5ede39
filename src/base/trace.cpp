#include "base/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/fork.h"
#include "base/trace_memory.h"
#include "base/trace_ranges.h"

namespace strata::tracing {

std::atomic<bool> enabled{false};
std::atomic<void (*)(Recording&)> finish_devices{nullptr};
std::atomic<const Ranges*> ranges{nullptr};
std::atomic<bool> watches_memory{false};

namespace {

constexpr uint32_t kChunk = 4096;   // slots
constexpr size_t kMostFacts = 512;  // slots of one span

// Written by one thread, read by stop(). A span is in one chunk.
struct Chunk {
  Slot slots[kChunk];
  std::atomic<uint32_t> used{0};
  std::atomic<Chunk*> next{nullptr};
};

struct Buffer {
  uint32_t number = 0;
  std::atomic<uint32_t> generation{0};  // of what it has
  std::atomic<Chunk*> first{nullptr};
  Chunk* last = nullptr;
  std::atomic<bool> finished{false};  // its thread has ended
  std::vector<Slot> open;             // the open spans, innermost last: header and facts
  uint64_t id = 0;
  uint32_t top = 0;  // where the innermost open span begins

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { clear(); }
  void clear() {
    for (Chunk* c = first.exchange(nullptr); c;) delete std::exchange(c, c->next.load());
    last = nullptr;
  }
};

std::mutex mutex;
const bool fork_safe = (hold_over_fork(mutex, ForkOrder::Trace), true);
// Never destroyed: threads may outlive static objects.
std::vector<std::unique_ptr<Buffer>>& buffers = *new std::vector<std::unique_ptr<Buffer>>;
std::atomic<uint32_t> generation{0};
std::atomic<uint64_t> next_id{1}, dropped{0};
std::atomic<int64_t> bytes_left{0};
uint32_t next_number = 0;

struct Owner {
  Buffer* buffer = nullptr;
  ~Owner() {
    if (buffer) buffer->finished.store(true, std::memory_order_release);
    buffer = nullptr;
    gone = true;
  }
  bool gone = false;
  int quiet = 0;
};
thread_local Owner owner;

// The buffer of this thread; null while the thread ends.
Buffer* own() {
  if (owner.buffer || owner.gone) return owner.buffer;
  std::lock_guard lock(mutex);
  buffers.push_back(std::make_unique<Buffer>());
  owner.buffer = buffers.back().get();
  owner.buffer->number = next_number++;
  return owner.buffer;
}

// Room for a span, or null if the memory is used up.
Slot* room(Buffer& b, uint32_t slots) {
  if (b.last && b.last->used.load(std::memory_order_relaxed) + slots <= kChunk)
    return b.last->slots + b.last->used.load(std::memory_order_relaxed);
  if (bytes_left.fetch_sub(sizeof(Chunk), std::memory_order_relaxed) < static_cast<int64_t>(sizeof(Chunk))) {
    bytes_left.fetch_add(sizeof(Chunk), std::memory_order_relaxed);
    return nullptr;
  }
  auto* fresh = new (std::nothrow) Chunk;
  if (!fresh) return nullptr;
  if (b.last) b.last->next.store(fresh, std::memory_order_release);
  else b.first.store(fresh, std::memory_order_release);
  b.last = fresh;
  return fresh->slots;
}

uint64_t pack(const void* p) { return reinterpret_cast<uintptr_t>(p); }
template <class T> const T* unpack(uint64_t v) { return reinterpret_cast<const T*>(static_cast<uintptr_t>(v)); }

// Slots after the first of a fact: a text of n bytes, sizes of n dimensions.
uint32_t more_slots(const Key& k, uint64_t value) {
  if (k.kind == Key::Kind::Copied) return static_cast<uint32_t>((value + sizeof(Slot) - 1) / sizeof(Slot));
  // Of Tensor: the dtype is the value of the first slot, the number of dimensions in the second.
  return 0;
}

// Calls f(key, slot of the fact) for each fact.
template <class F> void each_fact(const Slot* begin, const Slot* end, F f) {
  for (const Slot* s = begin; s < end;) {
    const Key& k = *unpack<Key>(s->a);
    f(k, s);
    if (k.kind == Key::Kind::Tensor) s += 2 + (s[1].a + 1) / 2;
    else s += 1 + more_slots(k, s->b);
  }
}

Fact fact_at(const Key& k, const Slot* s) {
  Fact f{&k, 0, 0, {}, {}};
  switch (k.kind) {
    case Key::Kind::Integer: f.integer = static_cast<int64_t>(s->b); break;
    case Key::Kind::Number: f.number = std::bit_cast<double>(s->b); break;
    case Key::Kind::Text: f.text = unpack<char>(s->b); break;
    case Key::Kind::Copied: f.text = {reinterpret_cast<const char*>(s + 1), s->b}; break;
    case Key::Kind::Tensor:
      f.text = unpack<char>(s->b);
      for (uint64_t i = 0; i < s[1].a; ++i)
        f.sizes.push_back(static_cast<int64_t>(i % 2 ? s[2 + i / 2].b : s[2 + i / 2].a));
      break;
  }
  return f;
}

}  // namespace

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

uint64_t current_id() { return owner.buffer && !owner.buffer->open.empty() ? owner.buffer->id : 0; }

const char* name_of(Layer layer) {
  static const char* const names[] = {"user",     "module", "python",  "op",     "dispatch",
                                      "autograd", "kernel", "runtime", "driver", "device"};
  return names[static_cast<int>(layer)];
}

const char* intern(std::string_view text) {
  static std::mutex lock;
  static auto* const texts = new std::set<std::string, std::less<>>;
  const std::lock_guard hold(lock);
  const auto at = texts->find(text);
  return (at != texts->end() ? *at : *texts->emplace(text).first).c_str();
}

std::string to_string(const Fact& f) {
  switch (f.key->kind) {
    case Key::Kind::Integer: return fmt::format("{} {}", f.key->name, f.integer);
    case Key::Kind::Number: return fmt::format("{} {:.3g}", f.key->name, f.number);
    case Key::Kind::Text:
    case Key::Kind::Copied:
      return *f.key == key::detail ? std::string(f.text) : fmt::format("{} {}", f.key->name, f.text);
    case Key::Kind::Tensor: break;
  }
  std::string sizes;
  for (const int64_t n : f.sizes) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", n);
  return fmt::format("{}{}[{}]", *f.key == key::output ? "-> " : "", f.text, sizes);
}

std::vector<Fact> Recording::facts(const Event& e) const {
  std::vector<Fact> all;
  const Slot* begin = slots_.data() + e.first;
  each_fact(begin, begin + e.slots, [&](const Key& k, const Slot* s) { all.push_back(fact_at(k, s)); });
  return all;
}

const char* Recording::text(const Event& e, const Key& wanted) const {
  const char* found = nullptr;
  const Slot* begin = slots_.data() + e.first;
  each_fact(begin, begin + e.slots, [&](const Key& k, const Slot* s) {
    if (k == wanted) found = unpack<char>(s->b);
  });
  return found;
}

int64_t Recording::integer(const Event& e, const Key& wanted, int64_t otherwise) const {
  const Slot* begin = slots_.data() + e.first;
  each_fact(begin, begin + e.slots, [&](const Key& k, const Slot* s) {
    if (k == wanted) otherwise = static_cast<int64_t>(s->b);
  });
  return otherwise;
}

std::string Recording::detail(const Event& e) const {
  std::string all;
  for (const Fact& f : facts(e)) all += (all.empty() ? "" : ", ") + to_string(f);
  return all;
}

void Recording::add(Layer layer, std::string_view name, uint64_t id, int64_t begin_ns, int64_t end_ns, uint32_t thread,
                    const char* op, int64_t device) {
  const uint64_t first = slots_.size();
  slots_.push_back({pack(&key::device), static_cast<uint64_t>(device)});
  if (op) slots_.push_back({pack(&key::op), pack(op)});
  events.push_back(
    {layer, static_cast<uint16_t>(slots_.size() - first), thread, intern(name), id, begin_ns, end_ns, first});
}

void start(size_t most_bytes) {
  std::lock_guard lock(mutex);
  STRATA_CHECK(!enabled.load(std::memory_order_relaxed), Runtime,
               "trace: a recording is already running in this process; stop it before the next one starts");
  std::erase_if(buffers, [](const auto& b) { return b->finished.load(std::memory_order_acquire); });
  bytes_left.store(static_cast<int64_t>(std::min<size_t>(most_bytes, INT64_MAX / 2)), std::memory_order_relaxed);
  dropped.store(0, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_relaxed);
  enabled.store(true, std::memory_order_release);
}

Recording stop() {
  Recording out;
  if (const auto finish = finish_devices.load(); finish && enabled.load(std::memory_order_relaxed)) finish(out);
  std::lock_guard lock(mutex);
  if (!enabled.exchange(false, std::memory_order_relaxed)) return out;
  const uint32_t current = generation.load(std::memory_order_relaxed);
  for (const auto& b : buffers) {
    if (b->generation.load(std::memory_order_acquire) != current) continue;
    for (const Chunk* c = b->first.load(std::memory_order_acquire); c; c = c->next.load(std::memory_order_acquire)) {
      const uint32_t used = c->used.load(std::memory_order_acquire);
      for (uint32_t at = 0; at < used;) {
        const Slot* s = c->slots + at;
        const auto facts = static_cast<uint16_t>(s[2].b >> 32);
        out.events.push_back({static_cast<Layer>(s[2].b & 0xff), facts, b->number, unpack<char>(s[1].a), s[1].b,
                              static_cast<int64_t>(s[0].a), static_cast<int64_t>(s[0].b), out.slots_.size()});
        out.slots_.insert(out.slots_.end(), s + kHeader, s + kHeader + facts);
        at += kHeader + facts;
      }
    }
  }
  out.dropped = dropped.load(std::memory_order_relaxed);
  return out;
}

// Without memory for the span it is lost: memory is given back where nothing may fail.
[[gnu::cold]] void note_free(const void* address, size_t bytes) noexcept {
  try {
    Span span(Layer::Runtime, "free");
    span.fact(key::bytes, static_cast<int64_t>(bytes));
    span.fact(key::address, static_cast<int64_t>(reinterpret_cast<uintptr_t>(address)));
  } catch (const std::bad_alloc&) { dropped.fetch_add(1, std::memory_order_relaxed); }
}

Quiet::Quiet() { ++owner.quiet; }
Quiet::~Quiet() { --owner.quiet; }

void Span::begin(Layer layer, const char* name) {
  if (owner.quiet) return;
  Buffer* b = own();
  if (!b) return;
  const uint32_t current = generation.load(std::memory_order_relaxed);
  if (b->generation.load(std::memory_order_relaxed) != current) {  // the first span of this thread in this recording
    std::lock_guard lock(mutex);                                   // stop() may still read the last one
    b->clear();
    b->open.clear();
    b->generation.store(current, std::memory_order_release);
  }
  if (b->open.empty()) b->id = next_id.fetch_add(1, std::memory_order_relaxed);
  mark_ = static_cast<uint32_t>(b->open.size());
  generation_ = current;
  buffer_ = b;
  parent_ = std::exchange(b->top, mark_);
  b->open.push_back({0, 0});
  b->open.push_back({pack(name), b->id});
  const Ranges* r = ranges.load(std::memory_order_relaxed);
  b->open.push_back({pack(r), static_cast<uint64_t>(layer)});  // the ranges that end() pops from
  if (r) r->push(name);
  open_ = true;
  b->open[mark_].a = static_cast<uint64_t>(now());
}

bool Span::can_add() const {
  const Buffer* b = owner.buffer;
  return b && b == buffer_ && b->generation.load(std::memory_order_relaxed) == generation_ && b->top == mark_ &&
         b->open.size() >= mark_ + kHeader;
}

void Span::fact(const Key& k, int64_t value) {
  if (!can_add()) return;
  Buffer& b = *owner.buffer;
  if (b.open.size() - mark_ < kMostFacts) b.open.push_back({pack(&k), static_cast<uint64_t>(value)});
}
void Span::number(const Key& k, double value) { fact(k, std::bit_cast<int64_t>(value)); }
void Span::text(const Key& k, const char* value) { fact(k, static_cast<int64_t>(pack(value))); }

void Span::copied(const Key& k, std::string_view value) {
  if (!can_add()) return;
  Buffer& b = *owner.buffer;
  value = value.substr(0, 2000);
  const uint32_t more = more_slots(k, value.size());
  if (b.open.size() - mark_ + more + 1 > kMostFacts) return;
  b.open.push_back({pack(&k), value.size()});
  const size_t at = b.open.size();
  b.open.resize(at + more);
  if (!value.empty()) std::memcpy(b.open.data() + at, value.data(), value.size());
}

void Span::tensor(const Key& k, const char* dtype, std::span<const int64_t> sizes) {
  if (!can_add()) return;
  Buffer& b = *owner.buffer;
  if (b.open.size() - mark_ + 2 + (sizes.size() + 1) / 2 > kMostFacts) return;
  b.open.push_back({pack(&k), pack(dtype)});
  b.open.push_back({sizes.size(), 0});
  for (size_t i = 0; i < sizes.size(); i += 2)
    b.open.push_back({static_cast<uint64_t>(sizes[i]), i + 1 < sizes.size() ? static_cast<uint64_t>(sizes[i + 1]) : 0});
}

void Span::end() {
  Buffer* b = owner.buffer;
  // Not if it was open when another recording began, or ends on another thread.
  if (!b || b != buffer_ || b->generation.load(std::memory_order_relaxed) != generation_ ||
      b->open.size() < mark_ + kHeader)
    return;
  if (const auto* r = unpack<Ranges>(b->open[mark_ + 2].a)) r->pop();
  if (b->top != mark_) {  // a span inside is still open: neither has an order with the other
    dropped.fetch_add(1, std::memory_order_relaxed);
    b->open.resize(mark_);
    b->top = parent_;
    return;
  }
  b->open[mark_].b = static_cast<uint64_t>(now());
  const auto slots = static_cast<uint32_t>(b->open.size()) - mark_;
  b->open[mark_ + 2].b |= static_cast<uint64_t>(slots - kHeader) << 32;
  if (Slot* to = room(*b, slots)) {
    std::memcpy(to, b->open.data() + mark_, slots * sizeof(Slot));
    b->last->used.store(static_cast<uint32_t>(to - b->last->slots) + slots, std::memory_order_release);
  } else {
    dropped.fetch_add(1, std::memory_order_relaxed);
  }
  b->open.resize(mark_);
  b->top = parent_;
}

}  // namespace strata::tracing
