#include "model/generation/host_adapter.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "lora/finite_values.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

// A product of both is far from infinite: infinities in a slot would reach the rows of others.
constexpr float kMaxValue = 1e30F;  // of a matrix with its scale

template <class T>
void add_value(DigestStream& digest, const T& value) {
  digest.add(std::as_bytes(std::span(&value, 1)));
}

// The elements of a module's a, or of its bt, among those of the adapter.
template <class T>
std::span<const T> a_of(const std::vector<T>& values, const AdapterModule& module) {
  if (values.empty()) return {};
  const auto count = static_cast<std::size_t>(module.rank * module.site.inputs);
  return std::span(values).subspan(module.a_offset, count);
}
template <class T>
std::span<const T> bt_of(const std::vector<T>& values, const AdapterModule& module) {
  if (values.empty()) return {};
  const auto count = static_cast<std::size_t>(module.rank * module.site.outputs);
  return std::span(values).subspan(module.bt_offset, count);
}

Digest digest_of(const HostAdapter& adapter) {
  DigestStream digest;
  for (const AdapterModule& module : adapter.modules) {
    add_value(digest, module.site.path.size());
    digest.add(std::as_bytes(std::span(module.site.path)));
    add_value(digest, module.rank);
    digest.add(std::as_bytes(a_of(adapter.parameters, module)));
    digest.add(std::as_bytes(bt_of(adapter.parameters, module)));
  }
  return digest.digest();
}

// Checks that no element of a slot can become infinite, whatever the factor of a request.
void require_values(const std::string& name, const HostAdapter& adapter) {
  const auto are_small = [](std::span<const float> values) {
    return all_finite(values) &&
           std::ranges::all_of(values, [](float value) { return std::abs(value) <= kMaxValue; });
  };
  for (const AdapterModule& module : adapter.modules) {
    require(
        are_small(a_of(adapter.parameters, module)) && are_small(bt_of(adapter.parameters, module)),
        "adapter '{}': values, multiplied with the adapter's scale, must be finite and at most "
        "{}, those of '{}' are not",
        name, kMaxValue, module.site.path);
  }
}

// Multiplies the bt of all modules with scale_of(module), and casts the result if products read it.
template <class ScaleOf>
void apply_scales(HostAdapter& adapter, bool casts, ScaleOf scale_of) {
  for (AdapterModule& module : adapter.modules) {
    const auto count = static_cast<std::size_t>(module.rank * module.site.outputs);
    const float scale = scale_of(module);
    for (float& value : std::span(adapter.parameters).subspan(module.bt_offset, count)) {
      value *= scale;
    }
    module.scale = 1;
  }
  if (!casts) return;
  adapter.parameters_bf16.resize(adapter.parameters.size());
  std::ranges::transform(adapter.parameters, adapter.parameters_bf16.begin(), float_to_bf16);
}

}  // namespace

const AdapterModule* HostAdapter::find(std::string_view path) const {
  const auto at = std::ranges::lower_bound(
      modules, path, {}, [](const AdapterModule& m) -> std::string_view { return m.site.path; });
  return at != modules.end() && at->site.path == path ? &*at : nullptr;
}

StackedFactors HostAdapter::factors(std::string_view path) const {
  StackedFactors factors{.rank = rank};
  const AdapterModule* module = find(path);
  if (module == nullptr) return factors;
  factors.a = a_of(parameters, *module);
  factors.bt = bt_of(parameters, *module);
  factors.a_bf16 = a_of(parameters_bf16, *module);
  factors.bt_bf16 = bt_of(parameters_bf16, *module);
  return factors;
}

HostAdapter copy_to_host(const std::string& name, const Adapter& adapter, bool casts) {
  HostAdapter copy{.modules = adapter.modules(),
                   .parameters = adapter.context().read<float>(adapter.parameters())};
  std::ranges::sort(copy.modules, {}, [](const AdapterModule& m) { return m.site.path; });
  for (const AdapterModule& module : copy.modules) copy.rank = std::max(copy.rank, module.rank);
  apply_scales(copy, casts, [](const AdapterModule& module) { return module.scale; });
  require_values(name, copy);
  copy.digest = digest_of(copy);
  return copy;
}

std::shared_ptr<const HostAdapter> scaled(const std::shared_ptr<const HostAdapter>& adapter,
                                          float scale) {
  if (scale == 1) return adapter;
  auto copy = std::make_shared<HostAdapter>(*adapter);
  apply_scales(*copy, !copy->parameters_bf16.empty(), [&](const AdapterModule&) { return scale; });
  return copy;
}

}  // namespace clora
