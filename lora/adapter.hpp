// Adapter: the trainable low-rank matrices of one LoRA (Hu et al., 2021), on the device; and with
// use_dora the magnitudes of the outputs (DoRA: Liu et al., 2024; ops/lora_linear/dora.hpp); and
// tensors of the base model that are trained in full (lora/saved_tensors.hpp).
//
// The matrices are slices of a ParameterSet, in the groups kLoraA and kLoraB, magnitudes in
// kMagnitude, and full tensors in kSavedVector and kSavedMatrix; each module has views of it. b is
// stored transposed (see ops/lora_linear/lora_linear.hpp); files store it as PEFT does. Owns its
// tensors; must not outlive its Context. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clora/lora/parameter_set.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/runtime/context.hpp"

namespace clora {

// What an adapter may attach to: a linear layer, or token embeddings (lora/end_modules.hpp).
struct AdapterSite {
  std::string path;          // "model.layers.0.self_attn.q_proj"
  std::int64_t inputs = 0;   // K
  std::int64_t outputs = 0;  // N
};

// A tensor of a base model that an adapter may train in full.
struct SavedTensor {
  std::string name;        // "model.layers.0.input_layernorm.weight", that of module NAME
  Shape shape;             // as in the base model's files
  std::size_t offset = 0;  // in the flat buffer, in elements; set by the Adapter

  std::string_view module() const { return std::string_view(name).substr(0, name.rfind('.')); }
  bool is_bias() const { return name.ends_with(".bias"); }
};

// Patterns of module paths and the values for the modules that match them, in the order in which
// they are tried (lora/module_selection.hpp).
template <class T>
using ModulePatterns = std::vector<std::pair<std::string, T>>;

// The task_type of PEFT's configurations that are supported: a model with a head, and one that
// embeds texts.
inline constexpr std::string_view kCausalLanguageModel = "CAUSAL_LM";
inline constexpr std::string_view kFeatureExtraction = "FEATURE_EXTRACTION";

// The biases of the base model that an adapter trains, by the names of PEFT's `bias`: none, all of
// linear layers and norms, or those of adapted layers.
enum class TrainedBiases { none, all, lora_only };
std::string_view name_of(TrainedBiases biases);
// Errors: invalid_argument, with the names that there are.
TrainedBiases named_biases(std::string_view name);

struct AdapterConfig {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;            // probability, in [0, 1)
  bool rank_stabilised = false;  // scale = alpha / sqrt(rank) (Kalajdzievski, 2023)
  // The adapted layers, as in PEFT: ends of paths ("q_proj"), or a single regular expression in
  // target_modules if targets_are_regex; except those of exclude_modules (in the same two forms),
  // and only in the blocks of layers_to_transform if it is not empty.
  std::vector<std::string> target_modules = {};
  std::string base_model = {};  // name or path of the base model
  std::string task_type =
      std::string(kCausalLanguageModel);  // PEFT's, or FEATURE_EXTRACTION of an embedding model
  bool targets_are_regex = false;
  std::vector<std::string> exclude_modules = {};
  bool excludes_are_regex = false;
  std::vector<std::int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {};  // path parts before a block's number: "layers"
  ModulePatterns<std::int64_t> rank_pattern = {};
  ModulePatterns<double> alpha_pattern = {};
  bool use_dora = false;  // each module has magnitudes of its outputs
  // PEFT's: ends of the paths of modules that are trained in full, and which biases are
  // (lora/saved_tensors.hpp).
  std::vector<std::string> modules_to_save = {};
  TrainedBiases biases = TrainedBiases::none;
};

// alpha / rank, or alpha / sqrt(rank).
double adapter_scale(const AdapterConfig& config, double alpha, std::int64_t rank);

// One adapted linear layer.
struct AdapterModule {
  AdapterSite site;
  std::int64_t rank = 0;
  float scale = 1;                   // alpha / rank, by the configuration
  std::size_t a_offset = 0;          // of a [R, K] in the flat buffer, in elements
  std::size_t bt_offset = 0;         // of bt [R, N]
  std::size_t magnitude_offset = 0;  // of the magnitudes [N], if there are any
};

class Adapter {
 public:
  static constexpr std::int64_t kMaxRank = 65536;
  // The groups of its parameters.
  static constexpr std::string_view kLoraA = "lora_A";
  static constexpr std::string_view kLoraB = "lora_B";
  static constexpr std::string_view kMagnitude = "lora_magnitude_vector";
  static constexpr std::string_view kSavedVector = "modules_to_save vectors";  // without decay
  static constexpr std::string_view kSavedMatrix = "modules_to_save matrices";

  // Zero matrices for every site; ignores the patterns of the configuration. Errors:
  // invalid_argument if there are no sites, for a rank outside 1 to kMaxRank, or an infinite scale;
  // out_of_memory, before any allocation, if the device lacks memory for the matrices.
  Adapter(Context& context, const std::vector<AdapterSite>& sites, const AdapterConfig& config,
          std::vector<SavedTensor> saved = {});
  // The same with a rank and scale per module; sets the offsets.
  Adapter(Context& context, std::vector<AdapterModule> modules, AdapterConfig config,
          std::vector<SavedTensor> saved = {});

  // a: uniform in +-1/sqrt(K) (PEFT's kaiming-uniform with a = sqrt 5), b = 0; of token embeddings
  // a = 0, b normal. The same for a seed on every device. Magnitudes and full tensors are NaN, so
  // that none is used before initialise_magnitudes() (model/transformer/column_scales.hpp) and
  // initialise_saved_tensors() (model/transformer/saved_tensors.hpp), which need the weights.
  void initialise(std::uint64_t seed);

  Context& context() const noexcept { return *context_; }
  const AdapterConfig& config() const noexcept { return config_; }
  const std::vector<AdapterModule>& modules() const noexcept { return modules_; }
  const AdapterModule* find(std::string_view path) const;

  // Views for the op; empty if the path has no module. Dropout is left at 0. bf16_parameters: all
  // of parameters() cast to bf16, kept up to date by the caller, or empty.
  LoraWeights weights(std::string_view path, const Tensor& bf16_parameters = {}) const;
  // Views of the gradients; empty if the path has no module. REQUIRES: allocate_gradients().
  LoraGradients gradients(std::string_view path) const;

  // Views [N] of the module's magnitudes and their gradients; empty without the path or magnitudes.
  // REQUIRES of the gradients: allocate_gradients().
  Tensor magnitude(std::string_view path) const;
  Tensor magnitude_gradient(std::string_view path) const;

  // The tensors that are trained in full, in the order of the model.
  const std::vector<SavedTensor>& saved_tensors() const noexcept { return saved_; }
  // Views of the tensor of that name and of its gradient; empty if it is not trained in full.
  // REQUIRES of the gradient: allocate_gradients().
  Tensor saved(std::string_view name) const;
  Tensor saved_gradient(std::string_view name) const;

  // All matrices; a slice is named "PATH.lora_A" or "PATH.lora_B".
  const ParameterSet& parameter_set() const noexcept { return set_; }
  // Its flat buffers [n]. Padding between matrices is zero in both.
  const Tensor& parameters() const noexcept { return set_.parameters(); }
  const Tensor& flat_gradients() const noexcept { return set_.gradients(); }
  void allocate_gradients() { set_.allocate_gradients(); }

  // Elements of all a, b, magnitudes and full tensors, without padding.
  std::int64_t trainable_parameters() const noexcept { return set_.elements(); }

 private:
  void place_modules();
  void place_saved();
  void sort_paths();

  Context* context_;
  AdapterConfig config_;
  std::vector<AdapterModule> modules_;
  std::vector<std::size_t> by_path_;  // the modules in the order of their paths
  std::vector<SavedTensor> saved_;
  ParameterSet set_;
};

}  // namespace clora
