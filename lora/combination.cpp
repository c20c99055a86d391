#include "clora/lora/combination.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "lora/low_rank.hpp"
#include "lora/sparsification.hpp"
#include "lora/truncated_svd.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Type = CombinationType;
using Tensors = std::vector<std::vector<double>>;

constexpr std::array<CombinationFacts, 11> kTypes{{
    {Type::cat, "cat", false, false, false, false, false},
    {Type::svd, "svd", true, false, false, false, false},
    {Type::linear, "linear", false, false, false, false, true},
    {Type::magnitude_prune, "magnitude_prune", false, true, false, false, true},
    {Type::magnitude_prune_svd, "magnitude_prune_svd", true, true, false, false, false},
    {Type::ties, "ties", false, true, false, true, true},
    {Type::ties_svd, "ties_svd", true, true, false, true, false},
    {Type::dare_linear, "dare_linear", false, true, true, false, true},
    {Type::dare_linear_svd, "dare_linear_svd", true, true, true, false, false},
    {Type::dare_ties, "dare_ties", false, true, true, true, true},
    {Type::dare_ties_svd, "dare_ties_svd", true, true, true, true, false},
}};

// A module of one adapter, with the adapter's weight.
struct Part {
  const ModuleMatrices* module;
  double weight;
};

void check(std::span<const WeightedAdapter> adapters, const CombinationConfig& config) {
  require(!adapters.empty(), "combine: at least one adapter is required");
  for (const WeightedAdapter& each : adapters) {
    require(std::isfinite(each.weight) && each.weight != 0,
            "combine: a weight must be a finite number other than 0, got {}", each.weight);
  }
  require(config.density > 0 && config.density <= 1,
          "combine: the density must be above 0 and at most 1, got {}", config.density);
  require(config.rank >= 0 && config.rank <= Adapter::kMaxRank,
          "combine: the rank must be from 1 to {}, got {}", Adapter::kMaxRank, config.rank);
}

// The parts of each module, by its path.
std::map<std::string, std::vector<Part>> parts_of(std::span<const WeightedAdapter> adapters) {
  std::map<std::string, std::vector<Part>> parts;
  for (const WeightedAdapter& each : adapters) {
    for (const ModuleMatrices& module : each.adapter->modules) {
      std::vector<Part>& of_path = parts[module.site.path];
      if (!of_path.empty()) {
        const AdapterSite& first = of_path.front().module->site;
        require(first.inputs == module.site.inputs && first.outputs == module.site.outputs,
                "combine: {} is [{}, {}] in one adapter and [{}, {}] in another; combine adapters "
                "of one base model",
                module.site.path, first.outputs, first.inputs, module.site.outputs,
                module.site.inputs);
      }
      of_path.push_back({&module, each.weight});
    }
  }
  return parts;
}

void require_equal_ranks(const std::vector<Part>& parts, std::string_view type) {
  const ModuleMatrices& first = *parts.front().module;
  for (const Part& part : parts) {
    require(part.module->rank == first.rank,
            "combine: '{}' requires equal ranks, but {} has rank {} in one adapter and {} in "
            "another; use 'cat' or 'svd', which take any, or resize the adapters to one rank first",
            type, first.site.path, first.rank, part.module->rank);
  }
}

// Drops values from each tensor as the type does, and merges the tensors.
class TensorMerge {
 public:
  explicit TensorMerge(const CombinationConfig& config)
      : config_(&config), facts_(&facts_of(config.type)), random_(config.seed) {}

  std::vector<double> merged(Tensors tensors, std::span<const double> weights) {
    for (std::vector<double>& tensor : tensors) drop_values(tensor);
    if (facts_->has_majority_sign) return disjoint_mean(tensors, weights, config_->majority_sign);
    return weighted_sum(tensors, weights);
  }

 private:
  void drop_values(std::vector<double>& tensor) {
    if (!facts_->has_density || config_->density >= 1) return;
    if (facts_->has_random) {
      keep_random(tensor, config_->density, random_);
    } else {
      keep_largest(tensor, config_->density);
    }
  }

  const CombinationConfig* config_;
  const CombinationFacts* facts_;
  RandomBits random_;
};

LowRank concatenated(const std::vector<Part>& parts) {
  std::vector<LowRank> products;
  for (const Part& part : parts) products.push_back(product_of(*part.module, part.weight));
  return sum_of(products);
}

ModuleMatrices merged_factors(const std::vector<Part>& parts, TensorMerge& merge) {
  Tensors as, bs;
  std::vector<double> a_weights, b_weights;
  for (const auto& [module, weight] : parts) {
    const double product = weight * module->scale;
    as.push_back(module->a);
    bs.push_back(module->b);
    b_weights.push_back(std::sqrt(std::abs(product)));
    a_weights.push_back(std::copysign(b_weights.back(), product));
  }
  const ModuleMatrices& first = *parts.front().module;
  ModuleMatrices module{.site = first.site, .rank = first.rank, .scale = 1, .a = {}, .b = {}};
  module.a = merge.merged(std::move(as), a_weights);
  module.b = merge.merged(std::move(bs), b_weights);
  return module;
}

// All N * K values of scale * b a.
std::vector<double> dense_values(const ModuleMatrices& module) {
  const LowRank product = product_of(module, 1);
  std::vector<double> values(static_cast<std::size_t>(module.site.outputs * module.site.inputs));
  Eigen::Map<RowMajorMatrix>(values.data(), product.b.rows(), product.at.rows()).noalias() =
      product.b * product.at.transpose();
  return values;
}

ModuleMatrices merged_products(const std::vector<Part>& parts, std::int64_t rank,
                               TensorMerge& merge) {
  const AdapterSite& site = parts.front().module->site;
  Tensors products;
  std::vector<double> weights;
  for (const auto& [module, weight] : parts) {
    products.push_back(dense_values(*module));
    weights.push_back(weight);
  }
  const std::vector<double> merged = merge.merged(std::move(products), weights);
  const Eigen::MatrixXd matrix =
      Eigen::Map<const RowMajorMatrix>(merged.data(), site.outputs, site.inputs);
  return module_of(site, approximation_of(matrix, rank));
}

ModuleMatrices approximated(const std::vector<Part>& parts, std::int64_t rank) {
  const Decomposition sum = decompose(concatenated(parts));
  return module_of(parts.front().module->site,
                   truncated(sum, std::min<std::int64_t>(rank, sum.s.size())));
}

std::int64_t largest_rank(std::span<const WeightedAdapter> adapters) {
  std::int64_t rank = 1;
  for (const WeightedAdapter& each : adapters) {
    for (const ModuleMatrices& module : each.adapter->modules) rank = std::max(rank, module.rank);
  }
  return rank;
}

}  // namespace

std::span<const CombinationFacts> combination_types() { return kTypes; }

const CombinationFacts& facts_of(CombinationType type) {
  return *std::ranges::find(kTypes, type, &CombinationFacts::type);
}

std::optional<CombinationType> combination_type(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &CombinationFacts::name);
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

AdapterMatrices combine(std::span<const WeightedAdapter> adapters,
                        const CombinationConfig& config) {
  check(adapters, config);
  const CombinationFacts& facts = facts_of(config.type);
  const std::int64_t rank = config.rank == 0 ? largest_rank(adapters) : config.rank;
  TensorMerge merge(config);
  std::vector<ModuleMatrices> modules;
  for (const auto& [path, parts] : parts_of(adapters)) {
    if (facts.needs_equal_ranks) require_equal_ranks(parts, facts.name);
    if (config.type == Type::cat) {
      modules.push_back(module_of(parts.front().module->site, concatenated(parts)));
    } else if (config.type == Type::svd) {
      modules.push_back(approximated(parts, rank));
    } else if (facts.has_rank) {
      modules.push_back(merged_products(parts, rank, merge));
    } else {
      modules.push_back(merged_factors(parts, merge));
    }
  }
  std::vector<const AdapterMatrices*> origins;
  for (const WeightedAdapter& each : adapters) origins.push_back(each.adapter);
  return make_adapter_matrices(std::move(modules), origins);
}

}  // namespace clora
