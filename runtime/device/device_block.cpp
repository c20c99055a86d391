#include "runtime/device/device_block.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxExactParts = 1024;

}  // namespace

DeviceBlock::DeviceBlock(OwnedMem mem, std::size_t bytes, Reach reach)
    : mem_(std::move(mem)), bytes_(bytes), reach_(reach) {}

DeviceBlock::~DeviceBlock() { drop_parts(); }

std::size_t DeviceBlock::end_of(std::size_t offset_bytes, std::size_t bytes) const noexcept {
  const bool exact = reach_ == Reach::exact ||
                     (reach_ == Reach::exact_while_few && parts_.size() < kMaxExactParts);
  return exact ? offset_bytes + bytes : bytes_;
}

cl_mem DeviceBlock::part(std::size_t offset_bytes, std::size_t bytes) {
  if (offset_bytes == 0) return handle();
  const std::size_t end = end_of(offset_bytes, bytes);
  const auto known = part_at_.find({offset_bytes, end});
  if (known != part_at_.end()) return known->second;
  const cl_buffer_region region{offset_bytes, end - offset_bytes};
  cl_int status = CL_SUCCESS;
  OwnedMem created(clCreateSubBuffer(handle(), 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
  check_opencl(status, "buffer: clCreateSubBuffer");
  const cl_mem part = created.get();
  parts_.push_back(std::move(created));
  part_at_[{offset_bytes, end}] = part;
  return part;
}

void DeviceBlock::drop_parts() noexcept {
  part_at_.clear();
  while (!parts_.empty()) parts_.pop_back();
}

}  // namespace clora
