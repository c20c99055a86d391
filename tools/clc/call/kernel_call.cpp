#include "tools/clc/call/kernel_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "clora/runtime/error.hpp"
#include "runtime/integer_sizes.hpp"
#include "tools/clc/call/argument_matching.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr std::byte kGuard{0xC7};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

Defines defines_of(const KernelCallSpec& spec) {
  Defines defines;
  if (!spec.options.empty()) defines.add_option(spec.options);
  return defines;
}

KernelReport report_on(const Context& context, const KernelCallSpec& spec) {
  const ProgramReport program =
      report_on_program(context, spec.file.text, spec.file.name, build_options(defines_of(spec)),
                        KernelWarnings::suppressed);
  if (!program.built) throw Error(ErrorCode::build_failed, program.log);
  return kernel_named(program, spec.kernel, spec.file.name);
}

Grid grid_of(const KernelCallSpec& spec, const KernelReport& kernel) {
  const bool required = kernel.required_group[0] > 0;
  Grid grid{spec.global,
            spec.local.value_or(required ? kernel.required_group : local_for(spec.global, kernel))};
  const GridSize& local = grid.local;
  if (required && local != kernel.required_group) {
    throw UsageError(fmt::format("--local {}: {} requires work-groups of {}", fmt::join(local, ","),
                                 kernel.name, fmt::join(kernel.required_group, ",")));
  }
  for (std::size_t d = 0; d < 3; ++d) {
    if (grid.global[d] % local[d] == 0) continue;
    throw UsageError(fmt::format(
        "--global {}: dimension {} must be a multiple of the work-group's {}; use {} and let the "
        "kernel skip items beyond its arrays",
        fmt::join(grid.global, ","), d, local[d], (grid.global[d] / local[d] + 1) * local[d]));
  }
  const std::size_t items = local[0] * local[1] * local[2];
  if (items > kernel.max_group) {
    throw UsageError(fmt::format(
        "--local {}: {} work-items per work-group, but {} can have at most {} on this device",
        fmt::join(local, ","), items, kernel.name, kernel.max_group));
  }
  return grid;
}

Tensor bytes_on(Context& context, std::size_t bytes) {
  return context.allocate({static_cast<std::int64_t>(bytes)}, DType::u8, MemoryTag::activations);
}

HostArray host_array(const ArgumentValue& value) {
  const auto* given = std::get_if<HostArray>(&value);
  return given != nullptr ? *given : array_of(std::get<ArraySpec>(value));
}

std::string name_of_argument(const KernelReport& kernel, std::size_t position) {
  const std::string& name = kernel.arguments[position].name;
  return name.empty() ? std::to_string(position) : name;
}

bool is_out(const ArgumentValue& value) {
  const auto* spec = std::get_if<ArraySpec>(&value);
  return spec != nullptr && spec->kind == ArraySpec::Kind::out;
}

// The damage of a guard; nearest_first: the guard follows the array.
BrokenGuard damage_in(std::span<const std::byte> guard, bool nearest_first) {
  BrokenGuard broken;
  for (std::size_t i = 0; i < guard.size(); ++i) {
    const std::size_t at = nearest_first ? i : guard.size() - 1 - i;
    if (guard[at] == kGuard) continue;
    if (broken.bytes++ == 0) broken.distance_bytes = i;
  }
  return broken;
}

}  // namespace

KernelCall::KernelCall(Context& context, KernelCallSpec spec)
    : context_(context),
      spec_(std::move(spec)),
      kernel_(report_on(context, spec_)),
      grid_(grid_of(spec_, kernel_)),
      arguments_by_position_(matched_arguments(kernel_, spec_.arguments)),
      batch_(context) {
  const std::size_t alignment = context.device().base_alignment_bytes;
  spec_.guard_bytes = round_up(spec_.guard_bytes, alignment);
  std::vector<Argument> bound;
  for (std::size_t i = 0; i < arguments_by_position_.size(); ++i)
    bound.push_back(argument_of(i, *arguments_by_position_[i]));
  for (std::size_t i = 0; i < arguments_by_position_.size();
       ++i) {  // second pass: the owners' memory exists now
    const auto* shared = std::get_if<SharedMemory>(&arguments_by_position_[i]->value);
    if (shared != nullptr) bound[i] = shared_array(i, *shared);
  }
  batch_.record({.kernel = context.kernel(spec_.file.name, kernel_.name, defines_of(spec_)),
                 .grid = grid_,
                 .cost = {},
                 .label = kernel_.name},
                std::move(bound));
}

// Arguments that share the memory of another array remain empty.
Argument KernelCall::argument_of(std::size_t position, const CallArgument& given) {
  const auto array = [&](bool captured) -> Argument {
    const HostArray host = host_array(given.value);
    if (captured) {
      require_pointer(kernel_, position, "an array");
    } else {
      require_array_fits(kernel_, position, host.type);
    }
    return new_array(position, given.value, host);
  };
  return std::visit(Overloaded{[&](const ArraySpec& spec) { return array(spec.captured); },
                               [&](const HostArray&) { return array(false); },
                               [&](const LocalMemory& local) -> Argument {
                                 require_local(kernel_, position);
                                 return local;
                               },
                               [&](const ScalarSpec& value) -> Argument {
                                 return value_bytes(kernel_, position, value);
                               },
                               [&](const ValueBytes& value) -> Argument { return value; },
                               [&](const SharedMemory&) -> Argument { return Tensor(); },
                               [&](const NullMemory&) -> Argument {
                                 require_pointer(kernel_, position, "null");
                                 return Tensor();
                               }},
                    given.value);
}

Tensor KernelCall::new_array(std::size_t position, const ArgumentValue& value,
                             const HostArray& host) {
  BoundArray array{.position = position,
                   .name = name_of_argument(kernel_, position),
                   .type = host.type,
                   .shape = host.shape,
                   .is_out = is_out(value),
                   .memory = {},
                   .guarded = {},
                   .is_shared = false};
  const std::size_t bytes = host.bytes.size();
  array.guarded = bytes_on(context_, bytes + 2 * spec_.guard_bytes);
  array.memory =
      array.guarded.slice(spec_.guard_bytes, {static_cast<std::int64_t>(bytes)}, DType::u8);
  upload(array, host);
  arrays_.push_back(array);
  return array.memory;
}

Tensor KernelCall::shared_array(std::size_t position, const SharedMemory& value) {
  const BoundArray owner = array(value.array);
  BoundArray shared{.position = position,
                    .name = name_of_argument(kernel_, position),
                    .type = value.type.value_or(owner.type),
                    .shape = value.shape,
                    .is_out = false,
                    .memory = {},
                    .guarded = {},
                    .is_shared = true};
  const std::size_t alignment = context_.device().base_alignment_bytes;
  const std::size_t left =
      owner.memory.bytes() - std::min(owner.memory.bytes(), value.offset_bytes);
  if (!value.type) {
    require_array_fits(kernel_, position, owner.type);
    shared.shape = value.offset_bytes == 0
                       ? owner.shape
                       : Dimensions{static_cast<std::int64_t>(left / bytes_of(owner.type))};
  }
  const std::size_t bytes =
      static_cast<std::size_t>(elements_of(shared.shape)) * bytes_of(shared.type);
  if (value.offset_bytes % alignment != 0 || bytes == 0 || bytes > left) {
    throw UsageError(
        fmt::format("{}: {} cannot be {} bytes at offset {} of '{}', which has {}; an offset must "
                    "be a multiple of {}",
                    kernel_.name, argument_text(kernel_, position), bytes, value.offset_bytes,
                    owner.name, owner.memory.bytes(), alignment));
  }
  shared.memory =
      owner.memory.slice(value.offset_bytes, {static_cast<std::int64_t>(bytes)}, DType::u8);
  arrays_.push_back(shared);
  return shared.memory;
}

void KernelCall::upload(const BoundArray& array, const HostArray& content) {
  if (spec_.guard_bytes == 0) return context_.write(array.memory, content.bytes);
  std::vector<std::byte> guarded(array.guarded.bytes(), kGuard);
  std::ranges::copy(content.bytes,
                    guarded.begin() + static_cast<std::ptrdiff_t>(spec_.guard_bytes));
  context_.write(array.guarded, guarded);
}

void KernelCall::run() {
  batch_.submit();
  context_.finish();
}

void KernelCall::reset(OutFill fill) {
  for (const BoundArray& array : arrays_) {
    if (array.is_shared) continue;
    HostArray host = host_array(arguments_by_position_[array.position]->value);
    if (array.is_out) fill_out(host, fill);
    upload(array, host);
  }
}

const BoundArray& KernelCall::array(const std::string& name) const {
  std::string names;
  for (const BoundArray& each : arrays_) {
    if (each.name == name || std::to_string(each.position) == name) return each;
    names += (names.empty() ? "" : ", ") + each.name;
  }
  throw UsageError(fmt::format("'{}' is not an array of this call of {}; the arrays are {}", name,
                               kernel_.name, names.empty() ? "none" : names));
}

HostArray KernelCall::read(const std::string& name) {
  const BoundArray& bound = array(name);
  HostArray host = HostArray::of_zeros(bound.type, bound.shape);
  context_.read(bound.memory, host.bytes);
  return host;
}

std::vector<BrokenGuard> KernelCall::broken_guards() {
  std::vector<BrokenGuard> broken;
  for (const BoundArray& array : arrays_) {
    if (array.is_shared) continue;
    const auto guarded = context_.read<std::byte>(array.guarded);
    const std::span all(guarded);
    for (const bool before : {true, false}) {
      BrokenGuard guard =
          damage_in(before ? all.first(spec_.guard_bytes) : all.last(spec_.guard_bytes), !before);
      guard.name = array.name;
      guard.before = before;
      if (guard.bytes > 0) broken.push_back(std::move(guard));
    }
  }
  return broken;
}

GridSize local_for(const GridSize& global, const KernelReport& kernel) {
  constexpr std::size_t kMax = 64;
  std::size_t items = 1;
  while (2 * items <= std::min(kMax, kernel.max_group) && global[0] % (2 * items) == 0) items *= 2;
  return {items, 1, 1};
}

}  // namespace clora
