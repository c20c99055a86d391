// Emulates a CPU without AVX-512 and AMX on one that has them. A library to preload, as
// tools/check_without_avx512 does: pocl then compiles for the lesser CPU, and clora uses the
// kernels for it, at the speed of the real one.
//   clora reads the CPU's features from glibc (runtime/device/device.cpp): their bits are cleared.
//   pocl reads them from LLVM, as a StringMap of names: their entries become false. LLVM's headers
//   are not needed; StringMap and Entry below have the layout that LLVM 15 gives a StringMap<bool>.
// With CPU_WITHOUT_AVX_VNNI=1 in the environment, AVX-VNNI is hidden as well: the CPU is then one
// with AVX2 only. Programs that load neither library are unaffected.
#include <dlfcn.h>
#include <sys/platform/x86.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

// LLVM's name of sys::getHostCPUFeatures(StringMap<bool>&), and glibc's of its table.
#define LLVM_FEATURES _ZN4llvm3sys18getHostCPUFeaturesERNS_9StringMapIbNS_15MallocAllocatorEEE
#define AS_TEXT_OF(name) #name
#define AS_TEXT(name) AS_TEXT_OF(name)

namespace {

constexpr std::array kHidden{x86_cpu_AVX512F,          x86_cpu_AVX512DQ,
                             x86_cpu_AVX512_IFMA,      x86_cpu_AVX512PF,
                             x86_cpu_AVX512ER,         x86_cpu_AVX512CD,
                             x86_cpu_AVX512BW,         x86_cpu_AVX512VL,
                             x86_cpu_AVX512_VBMI,      x86_cpu_AVX512_VBMI2,
                             x86_cpu_AVX512_VNNI,      x86_cpu_AVX512_BITALG,
                             x86_cpu_AVX512_VPOPCNTDQ, x86_cpu_AVX512_4VNNIW,
                             x86_cpu_AVX512_4FMAPS,    x86_cpu_AVX512_VP2INTERSECT,
                             x86_cpu_AVX512_FP16,      x86_cpu_AVX512_BF16,
                             x86_cpu_AMX_BF16,         x86_cpu_AMX_TILE,
                             x86_cpu_AMX_INT8};

// A feature's number is its bit in the table: a leaf has four registers of 32 bits.
constexpr unsigned kLeafBits = 4 * 32;

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "cpu_without_avx512: %s\n", why);
  std::abort();
}

bool hides_avx_vnni() { return std::getenv("CPU_WITHOUT_AVX_VNNI") != nullptr; }

void hide(cpuid_feature& features, unsigned feature) {
  const unsigned word = feature % kLeafBits / 32;
  features.cpuid_array[word] &= ~(1U << (feature % 32));
  features.active_array[word] &= ~(1U << (feature % 32));
}

cpuid_feature without_hidden(unsigned leaf, cpuid_feature features) {
  for (const unsigned feature : kHidden) {
    if (feature / kLeafBits == leaf) hide(features, feature);
  }
  if (hides_avx_vnni() && x86_cpu_AVX_VNNI / kLeafBits == leaf) hide(features, x86_cpu_AVX_VNNI);
  return features;
}

// llvm::StringMap<bool>: a table of pointers to entries, null where empty and kTombstone where
// removed. The characters of an entry's key follow it.
struct Entry {
  std::size_t key_size;
  bool value;
};
struct StringMap {
  Entry** table;
  unsigned buckets;
  unsigned entries;
  unsigned tombstones;
  unsigned entry_bytes;
};
constexpr std::uintptr_t kTombstone = std::uintptr_t(-1) << 3U;

std::string_view key_of(const Entry& entry) {
  return {reinterpret_cast<const char*>(&entry + 1), entry.key_size};
}

bool is_hidden(std::string_view feature) {
  if (feature == "avxvnni") return hides_avx_vnni();
  return feature.starts_with("avx512") || feature.starts_with("amx");
}

void hide(StringMap& map) {
  if (map.entry_bytes != sizeof(Entry)) give_up("LLVM's StringMap has another layout");
  unsigned hidden = 0;
  for (unsigned i = 0; i < map.buckets; ++i) {
    Entry* entry = map.table[i];
    if (entry == nullptr || reinterpret_cast<std::uintptr_t>(entry) == kTombstone) continue;
    if (!is_hidden(key_of(*entry))) continue;
    entry->value = false;
    ++hidden;
  }
  if (hidden == 0) give_up("LLVM lists no feature of AVX-512");
}

// The function of that name in the libraries that `caller` was linked with.
void* function_behind(const void* caller, const char* name) {
  Dl_info at{};
  if (::dladdr(caller, &at) == 0) give_up("dladdr does not find the caller");
  void* library = ::dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* function = library == nullptr ? nullptr : ::dlsym(library, name);
  if (function == nullptr) give_up("the caller has no LLVM");
  return function;
}

}  // namespace

extern "C" {

const cpuid_feature* __x86_get_cpuid_feature_leaf(unsigned leaf) {
  static auto* const real = reinterpret_cast<decltype(&__x86_get_cpuid_feature_leaf)>(
      ::dlsym(RTLD_NEXT, "__x86_get_cpuid_feature_leaf"));
  static const auto changed = [] {
    std::array<cpuid_feature, 16> leaves{};
    for (unsigned i = 0; i < leaves.size(); ++i) leaves[i] = without_hidden(i, *real(i));
    return leaves;
  }();
  return leaf < changed.size() ? &changed[leaf] : real(leaf);
}

bool LLVM_FEATURES(StringMap& map) {
  using Features = bool(StringMap&);
  auto* const real = reinterpret_cast<Features*>(
      function_behind(__builtin_return_address(0), AS_TEXT(LLVM_FEATURES)));
  const bool known = real(map);
  hide(map);
  return known;
}
}
