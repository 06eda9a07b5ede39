// A small fuzzer for compilers without libFuzzer: mutates the seeds, keeps what reaches new code, repeats from its seed.
//   fuzz_x CORPUS [-runs=N | -max_total_time=SECONDS] [-seed=N] [-artifact_prefix=PATH]     (the names are libFuzzer's)
// With -runs the inputs are the same in every call: a merge check must not depend on the machine's speed.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

using Input = std::vector<uint8_t>;

namespace {

constexpr size_t kEdges = 1 << 16, kMaxInput = 1 << 16;
std::array<uint8_t, kEdges> edges;  // hits of this run, by where the callback came from and where the last one did
std::array<uint8_t, kEdges> seen;   // of all runs: buckets of hit counts as bits
const Input* current = nullptr;
std::string artifact = "crash";

void write_artifact() {
  if (!current) return;
  std::ofstream(artifact, std::ios::binary)
    .write(reinterpret_cast<const char*>(current->data()), static_cast<std::streamsize>(current->size()));
  std::fprintf(stderr, "the input is in %s (%zu bytes)\n", artifact.c_str(), current->size());
  current = nullptr;
}
void on_signal(int number) {
  std::fprintf(stderr, "%s\n", number == SIGALRM ? "an input took more than 10 seconds" : "the target aborted");
  write_artifact();
  _exit(1);
}

uint8_t bucket(uint8_t hits) {
  return hits <= 3    ? static_cast<uint8_t>(1U << hits >> 1)
         : hits < 8   ? 8
         : hits < 16  ? 16
         : hits < 32  ? 32
         : hits < 128 ? 64
                      : 128;
}

bool run(const Input& input) {  // true: it reached new code
  edges.fill(0);
  current = &input;
  alarm(10);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
  current = nullptr;
  bool fresh = false;
  for (size_t word = 0; word < kEdges; word += 8) {  // most are zero: eight at a time
    uint64_t any;
    std::memcpy(&any, edges.data() + word, 8);
    if (!any) continue;
    for (size_t i = word; i < word + 8; ++i)
      if (const uint8_t b = edges[i] ? bucket(edges[i]) : 0; b & ~seen[i]) {
        seen[i] |= b;
        fresh = true;
      }
  }
  return fresh;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return n ? random_() % n : 0; }

  Input mutate(const std::vector<Input>& pool) {
    Input x = pool[below(pool.size())];
    for (size_t rounds = 1 + below(4); rounds-- > 0;) step(x, pool);
    if (x.size() > kMaxInput) x.resize(kMaxInput);
    return x;
  }

 private:
  void step(Input& x, const std::vector<Input>& pool) {
    if (x.empty()) x.push_back(0);
    const size_t at = below(x.size());
    const auto place = x.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(8)) {
      case 0: x[at] ^= static_cast<uint8_t>(1U << below(8)); break;
      case 1: x[at] = static_cast<uint8_t>(random_()); break;
      case 2: x.insert(place, static_cast<uint8_t>(random_())); break;
      case 3:
        x.erase(place, place + static_cast<std::ptrdiff_t>(1 + below(std::min<size_t>(x.size() - at, 16))));
        break;
      case 4: {  // a number at the edge of something, of 1 to 8 bytes, in either order
        const uint64_t edge = uint64_t{1} << below(64),
                       values[] = {edge, edge - 1, edge + 1, ~edge, 0, ~uint64_t{0}, x.size()};
        uint64_t v = values[below(7)];
        const size_t width = size_t{1} << below(4);
        if (below(2)) v = __builtin_bswap64(v) >> (64 - 8 * width);
        for (size_t i = 0; i < width && at + i < x.size(); ++i) x[at + i] = static_cast<uint8_t>(v >> (8 * i));
        break;
      }
      case 5: {  // a piece of this input, once more
        const Input piece(place, place + static_cast<std::ptrdiff_t>(1 + below(std::min<size_t>(x.size() - at, 64))));
        x.insert(x.begin() + static_cast<std::ptrdiff_t>(below(x.size() + 1)), piece.begin(), piece.end());
        break;
      }
      case 6: {  // the end of another
        const Input& other = pool[below(pool.size())];
        x.resize(at);
        if (!other.empty())
          x.insert(x.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
        break;
      }
      default: x.resize(at); break;
    }
  }
  std::mt19937_64 random_;
};
}  // namespace

#pragma GCC visibility push(default)  // the sanitizers, shared libraries, look these up
extern "C" {
void __sanitizer_cov_trace_pc();
void __sanitizer_set_death_callback(void (*)());
const char* __asan_default_options();
const char* __ubsan_default_options();
// A limit for single allocations of a file of 64 KB; the readers promise less.
const char* __asan_default_options() {
  return "max_allocation_size_mb=128:allocator_may_return_null=0:detect_leaks=1:handle_abort=0";
}
const char* __ubsan_default_options() { return "print_stacktrace=1:abort_on_error=1"; }
void __sanitizer_cov_trace_pc() {
  static thread_local uintptr_t last = 0;
  // Relative to an address of this program, whose load address changes from run to run.
  const uintptr_t here =
    reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - reinterpret_cast<uintptr_t>(&write_artifact);
  uint8_t& hits = edges[(here ^ last) % kEdges];
  hits = static_cast<uint8_t>(hits + (hits < 255));
  last = here >> 1;
}
}
#pragma GCC visibility pop

int main(int argc, char** argv) {
  int seconds = 60;
  uint64_t seed = 1, wanted = 0;  // 0: as many runs as there is time for
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text.starts_with("-max_total_time=")) seconds = std::atoi(argv[i] + 16);
    else if (text.starts_with("-runs=")) wanted = std::strtoull(argv[i] + 6, nullptr, 10);
    else if (text.starts_with("-seed=")) seed = std::strtoull(argv[i] + 6, nullptr, 10);
    else if (text.starts_with("-artifact_prefix=")) artifact = text.substr(17) + "crash";
    else
      for (const auto& entry : std::filesystem::recursive_directory_iterator(text))
        if (entry.is_regular_file()) files.push_back(entry.path());
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s CORPUS [-runs=N | -max_total_time=SECONDS] [-seed=N]: no seeds found\n", argv[0]);
    return 2;
  }
  std::sort(files.begin(), files.end());  // folders list their files in any order
  std::vector<Input> pool;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    pool.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  __sanitizer_set_death_callback(write_artifact);
  signal(SIGABRT, on_signal);
  signal(SIGALRM, on_signal);
  signal(SIGILL, on_signal);

  for (const Input& input : pool) run(input);
  Mutator mutator(seed);
  const size_t seeds = pool.size();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t runs = seeds;
  while (wanted ? runs < wanted : std::chrono::steady_clock::now() < end) {
    Input next = mutator.mutate(pool);
    ++runs;
    if (run(next)) pool.push_back(std::move(next));
  }
  std::printf("%s: %llu runs, %zu seeds, %zu more that reach new code\n",
              std::filesystem::path(argv[0]).filename().c_str(), static_cast<unsigned long long>(runs), seeds,
              pool.size() - seeds);
  return 0;
}
