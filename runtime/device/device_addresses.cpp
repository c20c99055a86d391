#include "runtime/device/device_addresses.hpp"

#include <utility>

#include "clora/runtime/commands/fence.hpp"
#include "runtime/programs/program.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = "device_address.cl";
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kTriedWith = 0x0c10'4a00'add4'e550;

// Whether clSetKernelArgSVMPointer is available: drivers before OpenCL 2.0 lack it.
bool has_pointer_arguments(cl_device_id device) {
  cl_device_svm_capabilities memory = 0;
  const cl_int status =
      clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof memory, &memory, nullptr);
  return status == CL_SUCCESS && (memory & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
}

template <class T>
void set_argument(const OwnedKernel& kernel, cl_uint n, const T& value) {
  check_opencl(clSetKernelArg(kernel.get(), n, sizeof value, &value),
               "device addresses: clSetKernelArg");
}

}  // namespace

DeviceAddresses::DeviceAddresses(cl_context context, cl_command_queue queue, const Device& device,
                                 ProgramCache& programs, std::shared_ptr<DeviceHealth> health,
                                 bool wanted)
    : context_(context),
      queue_(queue),
      device_(device.id),
      programs_(programs),
      health_(std::move(health)),
      accepted_(wanted ? std::nullopt : std::optional(false)) {}

std::optional<std::uint64_t> DeviceAddresses::of(const Buffer& buffer) {
  if (!buffer.is_pooled() || !are_accepted()) return std::nullopt;
  if (!buffer.address()) buffer.set_address(query(buffer.handle()));
  return buffer.address();
}

bool DeviceAddresses::are_accepted() {
  if (!accepted_) accepted_ = has_pointer_arguments(device_) && try_them();
  return *accepted_;
}

// Writes a word in the middle of a buffer through its address, and reads it back from the buffer.
bool DeviceAddresses::try_them() {
  try {
    prepare_queries();
    write_ = make_kernel("device_address_write");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of the device are numbers on the host
    void* const second = reinterpret_cast<void*>(query(words_.get()) + kWordBytes);
    check_opencl(clSetKernelArgSVMPointer(write_.get(), 0, second),
                 "device addresses: clSetKernelArgSVMPointer");
    set_argument(write_, 1, cl_ulong{kTriedWith});
    launch(write_.get());
    return read_word(1) == kTriedWith;
  } catch (const Error& error) {  // addresses stay unused; a lost Context throws
    health_->notice(error.opencl_status(), "device addresses");
    health_->require_usable("device addresses");
    return false;
  }
}

OwnedKernel DeviceAddresses::make_kernel(std::string_view function) {
  const Kernel kernel = programs_.kernel(kFile, function, {});
  cl_int status = CL_SUCCESS;
  OwnedKernel created(clCreateKernel(kernel.program->handle(), kernel.function.c_str(), &status));
  check_opencl(status, "device addresses: clCreateKernel");
  return created;
}

void DeviceAddresses::prepare_queries() {
  address_ = make_kernel("device_address");
  cl_int status = CL_SUCCESS;
  words_.reset(clCreateBuffer(context_, CL_MEM_READ_WRITE, 2 * kWordBytes, nullptr, &status));
  check_opencl(status, "device addresses: clCreateBuffer");
  set_argument(address_, 0, words_.get());
}

std::uint64_t DeviceAddresses::query(cl_mem memory) {
  set_argument(address_, 1, memory);
  launch(address_.get());
  return read_word(0);
}

void DeviceAddresses::launch(cl_kernel kernel) {
  const std::size_t one = 1;
  check_opencl(clEnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &one, &one, 0, nullptr, nullptr),
               "device addresses: clEnqueueNDRangeKernel");
}

std::uint64_t DeviceAddresses::read_word(std::size_t i) {
  cl_event event = nullptr;
  check_opencl(clEnqueueReadBuffer(queue_, words_.get(), CL_FALSE, i * kWordBytes, kWordBytes,
                                   &read_.at(i), 0, nullptr, &event),
               "device addresses: clEnqueueReadBuffer");
  Fence(event, health_).wait();
  return read_.at(i);
}

}  // namespace clora
