#include "model/training/device_moments.hpp"

#include <span>
#include <vector>

#include "runtime/fail.hpp"

namespace clora {
namespace {

template <class T>
Tensor zeros(Context& context, std::int64_t n, DType type) {
  const std::vector<T> values(static_cast<std::size_t>(n));
  return context.upload<T>({n}, type, values, MemoryTag::adapters);
}

QuantisedMoment zero_moment(Context& context, std::int64_t n) {
  return {zeros<std::uint8_t>(context, n, DType::u8),
          zeros<float>(context, moment_blocks(n), DType::f32)};
}

CodedMoment read_moment(Context& context, const QuantisedMoment& moment) {
  return {context.read<std::uint8_t>(moment.codes), context.read<float>(moment.scales)};
}

void require_size(std::string_view what, std::size_t got, std::int64_t wanted) {
  require(got == static_cast<std::size_t>(wanted),
          "trainer: the state to restore must have {} {}, got {}", wanted, what, got);
}

}  // namespace

DeviceMoments::DeviceMoments(Context& context, MomentType type, std::int64_t n)
    : context_(context), n_(n) {
  if (type == MomentType::q8) {
    tensors_ = Q8{zero_moment(context, n), zero_moment(context, n)};
  } else {
    tensors_ = F32{zeros<float>(context, n, DType::f32), zeros<float>(context, n, DType::f32)};
  }
}

void DeviceMoments::record(Batch& batch, const Update& update) const {
  if (const auto* f32 = std::get_if<F32>(&tensors_)) {
    record_adamw(batch,
                 {.parameters = update.parameters,
                  .first_moment = f32->first,
                  .second_moment = f32->second,
                  .gradients = update.gradients,
                  .settings = update.settings},
                 update.grad_norm);
    return;
  }
  const Q8& q8 = std::get<Q8>(tensors_);
  record_adamw_q8(batch,
                  {.parameters = update.parameters,
                   .first = q8.first,
                   .root = q8.root,
                   .gradients = update.gradients,
                   .settings = update.settings},
                  update.grad_norm);
}

Moments DeviceMoments::read() const {
  if (const auto* f32 = std::get_if<F32>(&tensors_)) {
    return MomentsF32{context_.read<float>(f32->first), context_.read<float>(f32->second)};
  }
  const Q8& q8 = std::get<Q8>(tensors_);
  return MomentsQ8{read_moment(context_, q8.first), read_moment(context_, q8.root)};
}

void DeviceMoments::write_to(const F32& tensors, const MomentsF32& values) {
  require_size("first moments", values.first.size(), n_);
  require_size("second moments", values.second.size(), n_);
  context_.write(tensors.first, std::as_bytes(std::span(values.first)));
  context_.write(tensors.second, std::as_bytes(std::span(values.second)));
}

void DeviceMoments::write_to(const Q8& tensors, const MomentsQ8& values) {
  require_size("codes of first moments", values.first.codes.size(), n_);
  require_size("scales of first moments", values.first.scales.size(), moment_blocks(n_));
  require_size("codes of second moments", values.root.codes.size(), n_);
  require_size("scales of second moments", values.root.scales.size(), moment_blocks(n_));
  context_.write(tensors.first.codes, std::as_bytes(std::span(values.first.codes)));
  context_.write(tensors.first.scales, std::as_bytes(std::span(values.first.scales)));
  context_.write(tensors.root.codes, std::as_bytes(std::span(values.root.codes)));
  context_.write(tensors.root.scales, std::as_bytes(std::span(values.root.scales)));
}

void DeviceMoments::write(const Moments& moments) {
  const MomentType type = tensors_.index() == 0 ? MomentType::f32 : MomentType::q8;
  require(type_of(moments) == type,
          "trainer: the state to restore has moments in {}, but this trainer has them in {}; "
          "create it with the same `moments`",
          name_of(type_of(moments)), name_of(type));
  if (const auto* f32 = std::get_if<F32>(&tensors_)) {
    write_to(*f32, std::get<MomentsF32>(moments));
  } else {
    write_to(std::get<Q8>(tensors_), std::get<MomentsQ8>(moments));
  }
}

}  // namespace clora
