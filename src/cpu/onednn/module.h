// Internals of the oneDNN module: one engine, one stream per thread, a per-thread cache of primitives with their memory
// objects.
#pragma once
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>
#include "cpu/onednn/api.h"

namespace strata::onednn {

extern const Host* host;
dnnl::engine& engine();
dnnl::stream& stream();     // of this thread
std::string& error_text();  // of this thread
inline dnnl::memory::data_type type_of(Type t) {
  using D = dnnl::memory::data_type;
  constexpr D table[] = {D::f32, D::bf16, D::f16, D::s8, D::u8, D::s32};
  return table[static_cast<int>(t)];
}

// Memory of the library's allocator for the duration of a scope.
class Block {
 public:
  explicit Block(size_t bytes) : p_(bytes ? host->allocate(bytes) : nullptr) {
    if (bytes && !p_) throw std::bad_alloc();
  }
  ~Block() {
    if (p_) host->release(p_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* get() const { return p_; }

 private:
  void* p_;
};

// The number of threads of oneDNN for the duration of a scope.
class Threads {
 public:
  Threads();
  ~Threads();
  int count() const { return wanted_; }

 private:
  int before_, wanted_;
};

// Primitives by description. Each thread has its own table, so there is no lock and a primitive's memory objects are
// used by one thread at a time; oneDNN itself shares the generated code between threads. Bounded: a full table is
// cleared.
template <class Key, class Entry> class Cache {
 public:
  template <class Make> Entry& get(const Key& key, Make make) {
    const Words words(key);
    const uint64_t h = words.hash();
    Slot& slot = recent_[h % kRecent];
    if (slot.entry && slot.words == words) return *slot.entry;
    auto& bucket = all_[h];
    for (auto& [stored, entry] : bucket)
      if (stored == words) {
        slot.words = words;
        return *(slot.entry = entry.get());
      }
    auto made = std::make_unique<Entry>(make());
    if (++count_ > kMost) {
      all_.clear();
      count_ = 1;
      for (Slot& s : recent_) s.entry = nullptr;
    }
    slot.words = words;
    slot.entry = made.get();
    all_[h].emplace_back(words, std::move(made));
    return *slot.entry;
  }

 private:
  static constexpr size_t kRecent = 64, kMost = 512;
  struct Words {  // the key's bytes, including padding: a key is zeroed before it is filled
    uint64_t w[sizeof(Key) / 8];
    Words() = default;
    explicit Words(const Key& key) {
      static_assert(sizeof(Key) % 8 == 0 && std::is_trivially_copyable_v<Key>);
      std::memcpy(w, &key, sizeof key);
    }
    bool operator==(const Words&) const = default;
    uint64_t hash() const {
      uint64_t h = 0x9e3779b97f4a7c15ull;
      for (uint64_t x : w) {
        h = (h ^ x) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
      }
      return h;
    }
  };
  struct Slot {
    Words words;
    Entry* entry = nullptr;
  };
  std::array<Slot, kRecent> recent_;
  std::unordered_map<uint64_t, std::vector<std::pair<Words, std::unique_ptr<Entry>>>> all_;
  size_t count_ = 0;
};

// Runs f and turns an exception into `false` and a message.
template <class F> bool guarded(F f) {
  try {
    f();
    return true;
  } catch (const std::exception& e) {
    error_text() = e.what();
    return false;
  }
}

const char* matmul_ready(const Matmul&);
bool matmul(const Matmul&, const void* a, const void* b, const void* bias, void* c, const Extra&);
PackedWeight matmul_weight(const Matmul&);
bool matmul_pack(const Matmul&, const void* b, void* packed);
const char* convolution_ready(const Convolution&);
bool convolution(const Convolution&, void* input, void* weight, void* bias, void* output, const void* packed,
                 const Extra&);
size_t convolution_weight_bytes(const Convolution&);
bool convolution_wants_channels_last(const Convolution&);
bool convolution_pack(const Convolution&, const void* weight, void* packed);

}  // namespace strata::onednn
