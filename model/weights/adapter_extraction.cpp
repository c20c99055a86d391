#include "clora/model/weights/adapter_extraction.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "lora/end_modules.hpp"
#include "lora/finite_values.hpp"
#include "lora/module_selection.hpp"
#include "lora/truncated_svd.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Eigen::MatrixXd;

std::string weight_of(const AdapterSite& site) { return site.path + ".weight"; }

// The tensor of the fine-tuned model that corresponds to one of the base model.
WeightView counterpart(const WeightFiles& tuned, const WeightView& base) {
  const std::optional<WeightView> view = tuned.find(base.name);
  require(view.has_value(), "extract: the fine-tuned model has no tensor '{}'", base.name);
  require(
      view->shape == base.shape,
      "extract: tensor '{}' is {} in the base model and {} in the fine-tuned one; use models of "
      "one architecture and size",
      base.name, base.shape.text(), view->shape.text());
  return *view;
}

std::vector<float> finite_weight(const WeightView& view) {
  std::vector<float> values = hugging_face_values(view);
  const auto at = first_not_finite(values);
  if (!at) return values;
  fail(ErrorCode::invalid_data, "extract: tensor '{}' of {} contains {} at element {}", view.name,
       view.file.string(), name_of_not_finite(values[*at]), *at);
}

// tuned - base [N, K]; nullopt if they are equal.
std::optional<MatrixXd> difference_of(const WeightView& base, const WeightView& tuned) {
  const std::vector<float> before = finite_weight(base), after = finite_weight(tuned);
  if (before == after) return std::nullopt;
  using Weights =
      Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  const Eigen::Index rows = base.shape[0], columns = base.shape[1];
  return Weights(after.data(), rows, columns).cast<double>() -
         Weights(before.data(), rows, columns).cast<double>();
}

// The error of a module that is already rounded. Overwrites the difference.
ModuleError error_of(const ModuleMatrices& module, MatrixXd& difference) {
  ModuleError error{.path = module.site.path, .rank = module.rank, .norm = difference.norm()};
  const LowRank product = product_of(module, 1);
  difference.noalias() -= product.b * product.at.transpose();
  error.error = difference.norm();
  return error;
}

ModuleMatrices approximate(const AdapterSite& site, const MatrixXd& difference,
                           const ExtractionConfig& config) {
  const Decomposition leading = leading_decomposition(difference, config.rank);
  const std::int64_t most = std::min<std::int64_t>(config.rank, leading.s.size());
  const double energy = config.energy * difference.squaredNorm();
  const std::int64_t rank =
      config.energy < 1 ? std::min(rank_of_energy(leading.s, energy), most) : most;
  ModuleMatrices module = module_of(site, truncated(leading, rank));
  round_to(module, config.type);
  return module;
}

class Progress {
 public:
  Progress(const ExtractionConfig& config, std::size_t all) : config_(&config), all_(all) {}
  void next() {
    if (config_->go_on && !config_->go_on(done_, all_)) {
      fail(ErrorCode::cancelled, "extract: stopped after {} of {} tensors", done_, all_);
    }
    ++done_;
  }

 private:
  const ExtractionConfig* config_;
  std::size_t done_ = 0, all_;
};

std::vector<WeightView> other_tensors(const WeightFiles& base,
                                      const std::vector<AdapterSite>& sites) {
  std::set<std::string> adapted;
  for (const AdapterSite& site : sites) adapted.insert(weight_of(site));
  std::vector<WeightView> others = base.all();
  std::erase_if(others, [&](const WeightView& view) { return adapted.contains(view.name); });
  return others;
}

void check(const ExtractionConfig& config) {
  require(config.rank >= 1 && config.rank <= Adapter::kMaxRank,
          "extract: the rank must be from 1 to {}, got {}", Adapter::kMaxRank, config.rank);
  require(config.energy > 0 && config.energy <= 1,
          "extract: the energy must be above 0 and at most 1, got {}", config.energy);
}

}  // namespace

Extraction extract_adapter(const WeightFiles& base, const WeightFiles& tuned,
                           const std::vector<AdapterSite>& sites, const AdapterConfig& adapter,
                           const ExtractionConfig& config) {
  check(config);
  for (const WeightView& view : base.all()) counterpart(tuned, view);  // before any is compared
  const std::vector<WeightView> others = other_tensors(base, sites);
  Progress progress(config, sites.size() + others.size());
  Extraction extraction;
  std::vector<ModuleMatrices> modules;
  std::vector<AdapterSite> chosen;
  for (const AdapterSite& site : sites) {
    require(!is_embedding(site.path), "extract: {} is not a linear layer; leave it out", site.path);
    progress.next();
    const WeightView view = base.get(weight_of(site), {site.outputs, site.inputs});
    std::optional<MatrixXd> difference = difference_of(view, counterpart(tuned, view));
    if (!difference) continue;
    chosen.push_back(site);
    modules.push_back(approximate(site, *difference, config));
    extraction.errors.modules.push_back(error_of(modules.back(), *difference));
  }
  require(!modules.empty(), "extract: the two models have the same linear layers");
  for (const WeightView& view : others) {
    progress.next();
    if (hugging_face_values(view) != hugging_face_values(counterpart(tuned, view))) {
      extraction.left_out.push_back(view.name);
    }
  }
  AdapterConfig selected = adapter;
  select_exactly(selected, chosen, sites);
  extraction.adapter = make_adapter_matrices(std::move(modules), selected);
  std::ranges::sort(extraction.errors.modules, {}, &ModuleError::path);
  return extraction;
}

}  // namespace clora
