#include "ops/adamw_norm.hpp"

#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

AdamwSpec adamw_spec(const Context& context, std::string_view file, bool cpu, std::int64_t n) {
  if (cpu) {
    const std::size_t groups = cpu_groups(context.device(), divide_up(n, 16));
    return {file, {}, single_item_groups(groups), static_cast<std::int64_t>(groups)};
  }
  constexpr std::size_t kMaxGroups = 1024;  // fills a large GPU; each repeats the last sum
  const std::size_t group = reduction_group(context.device());
  const auto items = static_cast<std::int64_t>(4 * group);  // elements per group at once
  const std::size_t groups = std::min(kMaxGroups, static_cast<std::size_t>(divide_up(n, items)));
  Defines defines;
  defines.set("GROUP", group);
  return {file, defines, groups_of(group, groups), static_cast<std::int64_t>(groups)};
}

Tensor record_square_sums(Batch& batch, const AdamwSpec& spec, const Tensor& gradients,
                          std::string_view label) {
  const std::int64_t n = gradients.elements();
  const auto count = static_cast<double>(n);
  const Tensor partials = batch.temporary({spec.groups}, DType::f32, "adamw partials");
  batch.launch({batch.context().kernel(spec.file, "adamw_square_sums", spec.defines),
                spec.grid,
                {2 * count, 4 * count},
                std::string(label)},
               partials, gradients, n);
  return partials;
}

std::int64_t require_adamw(std::string_view op, const Tensor& parameters, const Tensor& gradients,
                           const Tensor& settings, const Tensor& grad_norm) {
  require(!parameters.empty() && parameters.shape().rank() == 1 && parameters.elements() > 0,
          "{}: parameters must be f32 [n] with n at least 1, got {}", op, parameters.text());
  require_tensor(op, "parameters", parameters, parameters.shape());
  require_tensor(op, "gradients", gradients, parameters.shape());
  require_tensor(op, "settings", settings, {8});
  require_tensor(op, "grad_norm", grad_norm, {1});
  return parameters.elements();
}

}  // namespace clora
