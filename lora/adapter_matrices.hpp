// AdapterMatrices: an adapter's matrices on the host, for arithmetic on adapters without a device.
//
// Matrices are f64, so that sums and decompositions lose nothing before the result is stored. Owns
// its values; a plain value type. Functions are pure except for files; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/runtime/memory/dtype.hpp"

namespace clora {

// One adapted linear layer: its weight changes by scale * b a.
struct ModuleMatrices {
  AdapterSite site;
  std::int64_t rank = 0;
  double scale = 1;
  std::vector<double> a;  // [R, K]
  std::vector<double> b;  // [N, R]
};

struct AdapterMatrices {
  AdapterConfig config;
  std::vector<ModuleMatrices> modules;  // sorted by path, each path once

  // Returns nullptr if the path has no module.
  const ModuleMatrices* find(std::string_view path) const;
};

// An adapter with a weight in a sum. The adapter must outlive this object.
struct WeightedAdapter {
  const AdapterMatrices* adapter = nullptr;
  double weight = 1;
};

// Reads an adapter in PEFT's format (lora/peft_files.hpp). The base model is not needed: modules
// and shapes are those of the tensors; the embeddings and heads that PEFT may store with their
// adapters are left out. Errors: those of load_adapter(), without a base model's;
// unsupported for DoRA.
AdapterMatrices read_adapter_matrices(const std::filesystem::path& folder);

// Writes the adapter in PEFT's format, with values rounded to `type`: f32, f16 or bf16. REQUIRES:
// it has modules. Errors: io; invalid_argument for another type; invalid_data, naming the tensor,
// for a value that is not finite in `type`.
void write_adapter_matrices(const AdapterMatrices& adapter, const std::filesystem::path& folder,
                            DType type = DType::f32);

// Rounds every value to `type`, as write_adapter_matrices() does. Errors: the same, without io.
void round_to(AdapterMatrices& adapter, DType type);
void round_to(ModuleMatrices& module, DType type);

// Returns an adapter of these modules, all of which have scale 1. The configuration is `config`
// with the modules' ranks and alphas. Errors: invalid_argument without modules.
AdapterMatrices make_adapter_matrices(std::vector<ModuleMatrices> modules,
                                      const AdapterConfig& config);

// The same for modules that come from `origins`, with the settings of the first one. Selects
// exactly the modules in every base model that the origins fit: by the selection of an origin that
// has the same modules, else by the names of all if none is restricted in another way, else by full
// paths. Errors: also invalid_argument if the origins differ in task_type.
AdapterMatrices make_adapter_matrices(std::vector<ModuleMatrices> modules,
                                      std::span<const AdapterMatrices* const> origins);

}  // namespace clora
