// HostAdapter: the matrices of an adapter in host memory, in the form in which the stacks of
// adapters on devices take them (model/transformer/adapter_stacks.hpp). Immutable once made, and
// then thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/runtime/files/digest.hpp"
#include "model/transformer/adapter_stacks.hpp"

namespace clora {

struct HostAdapter {
  std::vector<AdapterModule> modules;  // sorted by path; of scale 1
  // As Adapter::parameters(), but each bt is multiplied with its module's scale.
  std::vector<float> parameters;
  std::vector<std::uint16_t> parameters_bf16 = {};  // the same, if AdapterStacks::has_copies()
  std::int64_t rank = 0;                            // the largest of a module
  Digest digest = {};                               // of paths, ranks and matrices

  const AdapterModule* find(std::string_view path) const;
  // What it has in one layer.
  StackedFactors factors(std::string_view path) const;
};

// Copies an adapter, also in bf16 if `casts`. Waits. Errors: invalid_argument, with its name, if a
// value is not finite or so large that an element of a slot could become infinite.
HostAdapter copy_to_host(const std::string& name, const Adapter& adapter, bool casts);

// The same with all bt multiplied with a factor; itself if that is 1.
std::shared_ptr<const HostAdapter> scaled(const std::shared_ptr<const HostAdapter>& adapter,
                                          float scale);

}  // namespace clora
