#include "clora/lora/adapter_errors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "lora/low_rank.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void require_same_shape(const ModuleMatrices& one, const ModuleMatrices& other) {
  require(
      one.site.inputs == other.site.inputs && one.site.outputs == other.site.outputs,
      "adapters: {} is [{}, {}] in one adapter and [{}, {}] in another; use adapters of one base "
      "model",
      one.site.path, one.site.outputs, one.site.inputs, other.site.outputs, other.site.inputs);
}

// Adds weight * module to the products of the path; a null module adds nothing.
void add(std::vector<LowRank>& products, const ModuleMatrices*& first, const ModuleMatrices* module,
         double weight) {
  if (module == nullptr) return;
  if (first == nullptr) first = module;
  require_same_shape(*first, *module);
  products.push_back(product_of(*module, weight));
}

double norm_of_sum(const std::vector<LowRank>& products) {
  return products.empty() ? 0 : norm_of(sum_of(products));
}

ModuleError error_at(const std::string& path, const AdapterMatrices& result,
                     std::span<const WeightedAdapter> wanted) {
  std::vector<LowRank> products;
  const ModuleMatrices* first = nullptr;
  for (const WeightedAdapter& each : wanted) {
    add(products, first, each.adapter->find(path), each.weight);
  }
  const ModuleMatrices* const module = result.find(path);
  ModuleError error{.path = path, .rank = module == nullptr ? 0 : module->rank};
  error.norm = norm_of_sum(products);
  add(products, first, module, -1);
  error.error = norm_of_sum(products);
  return error;
}

std::set<std::string> paths_of(std::span<const AdapterMatrices* const> adapters) {
  std::set<std::string> paths;
  for (const AdapterMatrices* adapter : adapters) {
    for (const ModuleMatrices& module : adapter->modules) paths.insert(module.site.path);
  }
  return paths;
}

}  // namespace

double ModuleError::relative() const {
  if (norm > 0) return error / norm;
  return error == 0 ? 0 : std::numeric_limits<double>::infinity();
}

double ModuleError::kept_energy() const { return 1 - relative() * relative(); }

ModuleError AdapterErrors::whole() const {
  ModuleError sum;
  for (const ModuleError& module : modules) {
    sum.norm = std::hypot(sum.norm, module.norm);
    sum.error = std::hypot(sum.error, module.error);
  }
  return sum;
}

const ModuleError& AdapterErrors::worst() const {
  require(!modules.empty(), "adapters: there are no modules");
  return *std::ranges::max_element(modules, {}, &ModuleError::relative);
}

AdapterErrors errors_of(const AdapterMatrices& result, std::span<const WeightedAdapter> wanted) {
  std::vector<const AdapterMatrices*> all{&result};
  for (const WeightedAdapter& each : wanted) all.push_back(each.adapter);
  AdapterErrors errors;
  for (const std::string& path : paths_of(all)) {
    errors.modules.push_back(error_at(path, result, wanted));
  }
  return errors;
}

double ModuleComparison::cosine() const {
  return norm > 0 && other_norm > 0 ? inner / (norm * other_norm) : 0;
}

std::vector<ModuleComparison> compare_adapters(const AdapterMatrices& one,
                                               const AdapterMatrices& other) {
  const std::vector<const AdapterMatrices*> both{&one, &other};
  std::vector<ModuleComparison> modules;
  for (const std::string& path : paths_of(both)) {
    ModuleComparison& compared = modules.emplace_back();
    compared.path = path;
    const ModuleMatrices* first = nullptr;
    std::vector<LowRank> left, right, difference;
    add(left, first, one.find(path), 1);
    add(right, first, other.find(path), 1);
    compared.rank = left.empty() ? 0 : one.find(path)->rank;
    compared.other_rank = right.empty() ? 0 : other.find(path)->rank;
    compared.norm = norm_of_sum(left);
    compared.other_norm = norm_of_sum(right);
    if (!left.empty() && !right.empty()) {
      compared.inner = inner_product(left.front(), right.front());
    }
    difference = left;
    add(difference, first, other.find(path), -1);
    compared.difference = norm_of_sum(difference);
  }
  return modules;
}

ModuleComparison sum_of(std::span<const ModuleComparison> modules) {
  ModuleComparison sum;
  for (const ModuleComparison& module : modules) {
    sum.rank = std::max(sum.rank, module.rank);
    sum.other_rank = std::max(sum.other_rank, module.other_rank);
    sum.norm = std::hypot(sum.norm, module.norm);
    sum.other_norm = std::hypot(sum.other_norm, module.other_norm);
    sum.difference = std::hypot(sum.difference, module.difference);
    sum.inner += module.inner;
  }
  return sum;
}

}  // namespace clora
