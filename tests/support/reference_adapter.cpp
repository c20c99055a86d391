#include "tests/support/reference_adapter.hpp"

#include <cmath>
#include <span>

#include "clora/model/transformer/language_model.hpp"

namespace clora::test {
namespace {

constexpr std::size_t kModulesPerBlock = 7;  // all linear layers of the blocks of SmolLM2

}  // namespace

void fill_reference_adapter(const Adapter& adapter) {
  for (std::size_t m = 0; m < adapter.modules().size(); ++m) {
    const AdapterModule& module = adapter.modules()[m];
    std::vector<float> a(static_cast<std::size_t>(module.rank * module.site.inputs));
    for (std::int64_t i = 0; i < module.rank; ++i) {
      for (std::int64_t j = 0; j < module.site.inputs; ++j) {
        a[static_cast<std::size_t>(i * module.site.inputs + j)] = static_cast<float>(
            0.02 * std::sin(0.37 * static_cast<double>(i) + 0.11 * static_cast<double>(j) +
                            static_cast<double>(m / kModulesPerBlock)));
      }
    }
    adapter.context().write(adapter.weights(module.site.path).a, std::as_bytes(std::span(a)));
  }
}

}  // namespace clora::test
