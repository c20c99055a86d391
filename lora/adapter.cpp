#include "clora/lora/adapter.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

std::vector<AdapterModule> modules_of(const std::vector<AdapterSite>& sites,
                                      const AdapterConfig& config) {
  require(config.rank >= 1 && config.rank <= Adapter::kMaxRank,
          "adapter: the rank must be from 1 to {}, got {}", Adapter::kMaxRank, config.rank);
  const double scale = adapter_scale(config, config.alpha, config.rank);
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site : sites) {
    modules.push_back({site, config.rank, static_cast<float>(scale), 0, 0});
  }
  return modules;
}

// Uniform in [-bound, bound) from 24 bits of the generator: the same on every platform, which
// std::uniform_real_distribution does not guarantee.
float uniform(std::mt19937_64& generator, double bound) {
  const double unit = static_cast<double>(generator() >> 40U) * 0x1p-24;
  return static_cast<float>(bound * (2 * unit - 1));
}

// Checks the total before any allocation, instead of failing at one of them.
void require_free_memory(Context& context, std::size_t elements) {
  const MemoryStatistics pool = context.pool().statistics();
  if (elements <= pool.free_bytes() / sizeof(float)) return;
  fail(ErrorCode::out_of_memory,
       "adapter: its matrices need {} MiB, '{}' has {} MiB free of {} MiB; use a lower rank or "
       "fewer target modules",
       elements / (std::size_t{1 << 20} / sizeof(float)), context.device().name,
       pool.free_bytes() >> 20U, pool.limit_bytes >> 20U);
}

}  // namespace

double adapter_scale(const AdapterConfig& config, double alpha, std::int64_t rank) {
  const auto r = static_cast<double>(rank);
  return alpha / (config.rank_stabilised ? std::sqrt(r) : r);
}

Adapter::Adapter(Context& context, const std::vector<AdapterSite>& sites,
                 const AdapterConfig& config)
    : Adapter(context, modules_of(sites, config), config) {}

Adapter::Adapter(Context& context, std::vector<AdapterModule> modules, AdapterConfig config)
    : context_(&context), config_(std::move(config)), modules_(std::move(modules)) {
  require(!modules_.empty(), "adapter: no linear layer to attach to");
  require(config_.dropout >= 0 && config_.dropout < 1, "adapter: dropout must be in [0, 1), got {}",
          config_.dropout);
  place_modules();
  sort_paths();
}

void Adapter::place_modules() {
  // Every matrix begins at an aligned address for kernel arguments, also when cast to bf16. The
  // offsets are the same on all devices that need no more than kAlignment, so that they can train
  // one adapter together.
  constexpr std::size_t kAlignment = 512;  // bytes
  const std::size_t step =
      std::max<std::size_t>(kAlignment, context_->device().base_alignment_bytes) / 2;
  std::size_t end = 0;
  const auto place = [&](std::int64_t elements) {
    const std::size_t offset = end;
    end = round_up(end + static_cast<std::size_t>(elements), step);
    return offset;
  };
  for (AdapterModule& module : modules_) {
    require(module.rank >= 1 && module.rank <= kMaxRank,
            "adapter: the rank of {} must be from 1 to {}, got {}", module.site.path, kMaxRank,
            module.rank);
    require(std::isfinite(module.scale),
            "adapter: the scale of {} (alpha / rank) must be a finite 32-bit number, got {}",
            module.site.path, module.scale);
    module.a_offset = place(module.rank * module.site.inputs);
    module.bt_offset = place(module.rank * module.site.outputs);
  }
  require_free_memory(*context_, end);
  const std::vector<float> zeros(end);
  parameters_ = context_->upload<float>({static_cast<std::int64_t>(end)}, DType::f32, zeros,
                                        MemoryTag::adapters);
}

void Adapter::initialise(std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(parameters_.elements()));
  for (const AdapterModule& module : modules_) {
    const double bound = 1 / std::sqrt(static_cast<double>(module.site.inputs));
    const auto count = static_cast<std::size_t>(module.rank * module.site.inputs);
    for (std::size_t i = 0; i < count; ++i) values[module.a_offset + i] = uniform(generator, bound);
  }
  context_->write(parameters_, std::as_bytes(std::span(values)));
}

const AdapterModule* Adapter::find(std::string_view path) const {
  const auto path_of = [this](std::size_t i) -> std::string_view { return modules_[i].site.path; };
  const auto at = std::ranges::lower_bound(by_path_, path, {}, path_of);
  return at == by_path_.end() || path_of(*at) != path ? nullptr : &modules_[*at];
}

// Models with experts have ten thousands of modules.
void Adapter::sort_paths() {
  by_path_.resize(modules_.size());
  std::iota(by_path_.begin(), by_path_.end(), std::size_t{0});
  std::ranges::stable_sort(
      by_path_, {}, [this](std::size_t i) -> std::string_view { return modules_[i].site.path; });
}

Tensor Adapter::view(const Tensor& flat, std::size_t offset, Shape shape) {
  return flat.slice(bytes_of(flat.type(), offset), shape, flat.type());
}

LoraWeights Adapter::weights(std::string_view path, const Tensor& bf16_parameters) const {
  const AdapterModule* module = find(path);
  if (module == nullptr) return {};
  const Shape a{module->rank, module->site.inputs}, bt{module->rank, module->site.outputs};
  LoraWeights weights{.a = view(parameters_, module->a_offset, a),
                      .bt = view(parameters_, module->bt_offset, bt),
                      .scale = module->scale};
  if (!bf16_parameters.empty()) {
    weights.a_bf16 = view(bf16_parameters, module->a_offset, a);
    weights.bt_bf16 = view(bf16_parameters, module->bt_offset, bt);
  }
  return weights;
}

LoraGradients Adapter::gradients(std::string_view path) const {
  const AdapterModule* module = find(path);
  if (module == nullptr) return {};
  require(!gradients_.empty(), "adapter: gradients were not allocated");
  return {.da = view(gradients_, module->a_offset, {module->rank, module->site.inputs}),
          .dbt = view(gradients_, module->bt_offset, {module->rank, module->site.outputs})};
}

void Adapter::allocate_gradients() {
  if (!gradients_.empty()) return;
  const std::vector<float> zeros(static_cast<std::size_t>(parameters_.elements()));
  gradients_ = context_->upload<float>(parameters_.shape(), DType::f32, zeros, MemoryTag::adapters);
}

std::int64_t Adapter::trainable_parameters() const noexcept {
  return std::accumulate(modules_.begin(), modules_.end(), std::int64_t{0},
                         [](std::int64_t sum, const AdapterModule& module) {
                           return sum + module.rank * (module.site.inputs + module.site.outputs);
                         });
}

}  // namespace clora
