#include "runtime/programs/program_report.hpp"

#include <algorithm>
#include <chrono>

#include "runtime/device/opencl.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/programs/program.hpp"

namespace clora {
namespace {

// The text that an OpenCL query returns, without its terminator; empty on failure.
template <class Query>
std::string text_of(Query query) {
  std::size_t bytes = 0;
  if (query(0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::string text(bytes, '\0');
  if (query(bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

// An argument's name as written in the source: pocl's headers rename OpenCL functions with macros,
// and therefore also arguments with the same names ("step", "length").
std::string written_name(std::string name) {
  constexpr std::string_view kOfPocl = "_cl_";
  if (name.starts_with(kOfPocl)) name.erase(0, kOfPocl.size());
  return name;
}

KernelArgument::Space space_of(cl_kernel kernel, cl_uint i) {
  cl_kernel_arg_address_qualifier space = CL_KERNEL_ARG_ADDRESS_PRIVATE;
  clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, nullptr);
  switch (space) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
      return KernelArgument::Space::global;
    case CL_KERNEL_ARG_ADDRESS_CONSTANT:
      return KernelArgument::Space::constant;
    case CL_KERNEL_ARG_ADDRESS_LOCAL:
      return KernelArgument::Space::local;
    default:
      return KernelArgument::Space::value;
  }
}

std::vector<KernelArgument> arguments_of(cl_kernel kernel) {
  cl_uint count = 0;
  check_opencl(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr),
               "program report: CL_KERNEL_NUM_ARGS");
  std::vector<KernelArgument> arguments;
  for (cl_uint i = 0; i < count; ++i) {
    const auto text = [&](cl_kernel_arg_info what) {
      return text_of([&](std::size_t bytes, void* to, std::size_t* needed) {
        return clGetKernelArgInfo(kernel, i, what, bytes, to, needed);
      });
    };
    cl_kernel_arg_type_qualifier qualifiers = CL_KERNEL_ARG_TYPE_NONE;
    clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifiers, &qualifiers,
                       nullptr);
    arguments.push_back({.name = written_name(text(CL_KERNEL_ARG_NAME)),
                         .type = text(CL_KERNEL_ARG_TYPE_NAME),
                         .space = space_of(kernel, i),
                         .read_only = (qualifiers & CL_KERNEL_ARG_TYPE_CONST) != 0});
  }
  return arguments;
}

template <class T>
T of_group(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what) {
  T value{};
  clGetKernelWorkGroupInfo(kernel, device, what, sizeof value, &value, nullptr);
  return value;
}

KernelReport report_on_kernel(cl_kernel kernel, cl_device_id device) {
  const auto size = [&](cl_kernel_work_group_info what) {
    return static_cast<std::size_t>(of_group<cl_ulong>(kernel, device, what));
  };
  return {.name = text_of([&](std::size_t bytes, void* to, std::size_t* needed) {
            return clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, bytes, to, needed);
          }),
          .arguments = arguments_of(kernel),
          .private_bytes = size(CL_KERNEL_PRIVATE_MEM_SIZE),
          .local_bytes = size(CL_KERNEL_LOCAL_MEM_SIZE),
          .max_group = of_group<std::size_t>(kernel, device, CL_KERNEL_WORK_GROUP_SIZE),
          .preferred_multiple =
              of_group<std::size_t>(kernel, device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE),
          .required_group = of_group<std::array<std::size_t, 3>>(
              kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE)};
}

std::vector<KernelReport> kernels_of(cl_program program, cl_device_id device) {
  cl_uint count = 0;
  check_opencl(clCreateKernelsInProgram(program, 0, nullptr, &count),
               "program report: clCreateKernelsInProgram");
  std::vector<cl_kernel> handles(count);
  if (count > 0) {
    check_opencl(clCreateKernelsInProgram(program, count, handles.data(), nullptr),
                 "program report: clCreateKernelsInProgram");
  }
  const std::vector<OwnedKernel> owned(handles.begin(), handles.end());
  std::vector<KernelReport> kernels;
  for (const OwnedKernel& kernel : owned) kernels.push_back(report_on_kernel(kernel.get(), device));
  std::ranges::sort(kernels, {}, &KernelReport::name);
  return kernels;
}

}  // namespace

ProgramReport report_on_program(const Context& context, const std::string& text,
                                const std::string& file, const std::string& options,
                                KernelWarnings warnings) {
  const cl_device_id device = context.device().id;
  ProgramReport report;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [begin] { return seconds_since(begin); };
  const std::string reporting = "-cl-kernel-arg-info " + options;
  const bool quiet = warnings == KernelWarnings::suppressed;
  std::shared_ptr<const Program> program;
  try {
    program = Program::from_source(context.opencl_context(), device, text, file,
                                   quiet ? without_warnings(reporting) : reporting);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::build_failed) throw;
    report.log = error.what();
    report.seconds = seconds();
    return report;
  }
  report.built = true;
  try {
    report.binary = program->binary(device);
  } catch (const Error&) {  // a driver need not provide one
  }
  report.seconds = seconds();
  report.log = program->log(device);
  report.kernels = kernels_of(program->handle(), device);
  return report;
}

std::string_view name_of(KernelArgument::Space space) {
  switch (space) {
    case KernelArgument::Space::global:
      return "global";
    case KernelArgument::Space::constant:
      return "constant";
    case KernelArgument::Space::local:
      return "local";
    default:
      return "value";
  }
}

}  // namespace clora
