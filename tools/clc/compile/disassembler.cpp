#include "tools/clc/compile/disassembler.hpp"

#include <algorithm>

#include "runtime/fail.hpp"
#include "runtime/programs/program_report.hpp"
#include "tools/clc/compile/device_build.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

constexpr double kSeconds = 300;

std::string objdump_program() {
  for (const char* name : {"objdump", "llvm-objdump-14"}) {
    if (has_program(name)) return name;
  }
  fail(ErrorCode::not_found,
       "clc disasm: x86 code requires objdump or llvm-objdump-14, but neither is in PATH; install "
       "the package binutils");
}

// pocl stores KERNEL/SIZES/KERNEL.so in a folder per program.
std::vector<std::filesystem::path> shared_objects_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    if (each.path().extension() == ".so") found.push_back(each.path());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<KernelListing> listings_in(const std::filesystem::path& cache) {
  const std::string program = objdump_program();
  std::vector<KernelListing> kernels;
  for (const std::filesystem::path& object : shared_objects_in(cache)) {
    const ProcessResult result =
        run_process({program, "-d", "--no-show-raw-insn", object.string()}, kSeconds);
    if (!result.succeeded()) {
      fail(ErrorCode::io, "clc disasm: {} {}: {}", program, end_text(result), result.err);
    }
    KernelListing listing = listing_of_objdump(result.out, object.stem().string());
    if (!listing.lines.empty()) kernels.push_back(std::move(listing));
  }
  std::ranges::sort(kernels, {}, &KernelListing::kernel);
  return kernels;
}

std::string text_of(const std::vector<std::byte>& binary) {
  std::string text;
  std::ranges::transform(binary, std::back_inserter(text),
                         [](std::byte each) { return static_cast<char>(each); });
  return text;
}

Disassembly of_nvidia(const Context& context, const KernelFile& file, const Target& target,
                      const std::string& options) {
  Disassembly found{.options = options, .target = target};
  const ProgramReport report = report_on_program(
      context, file.text, file.name, options + " -cl-nv-verbose", KernelWarnings::suppressed);
  if (report.built) {
    found.kernels = listings_of(text_of(report.binary));
  } else {
    found.error = first_error(report.log);
  }
  return found;
}

}  // namespace

std::vector<Disassembly> Disassembler::disassemble(const std::string& path, const KernelFile& file,
                                                   const Target& target) {
  if (target.maker == Target::Maker::this_device) return of_device(path, file, target);
  if (!compiler_) compiler_ = std::make_unique<OfflineCompiler>();
  std::vector<Disassembly> all;
  for (const std::string& options : option_sets_for(options_, file, target)) {
    const OfflineBuild build = compiler_->build(file, target, options, true);
    all.push_back({.options = options, .target = target, .error = build.error});
    if (!build.built) continue;
    if (target.maker == Target::Maker::intel) {
      all.back().error = "its binaries are not disassembled";
    } else {
      all.back().kernels = listings_of(build.assembly);
    }
  }
  return all;
}

std::vector<Disassembly> Disassembler::of_device(const std::string& path, const KernelFile& file,
                                                 const Target& target) {
  const Context context(context_config(options_, file));
  const Device& device = context.device();
  const bool nvidia = has_nvidia_driver(device);
  if (!nvidia && !is_pocl(device)) {
    fail(ErrorCode::unsupported,
         "clc disasm: only NVIDIA's driver and pocl provide assembly, but '{}' uses another "
         "driver; use --target",
         device.name);
  }
  std::vector<Disassembly> all;
  for (const std::string& options : option_sets(options_, file, device)) {
    all.push_back(nvidia ? of_nvidia(context, file, target, options)
                         : of_pocl(path, device.index, target, options));
  }
  return all;
}

// The location of pocl's code is known only through its cache folder, which pocl reads once per
// process.
Disassembly Disassembler::of_pocl(const std::string& path, int device, const Target& target,
                                  const std::string& options) const {
  const WorkFolder cache;
  const DeviceBuild build = build_in_child({.file = path,
                                            .include_folders = options_.include_folders,
                                            .options = options,
                                            .device = device,
                                            .binary = {},
                                            .pocl_cache = cache.path()});
  Disassembly found{.options = options, .target = target, .kernels = listings_in(cache.path())};
  if (found.kernels.empty()) {
    found.error = first_error(build.words);
    if (found.error.empty()) found.error = build.words;
  }
  return found;
}

}  // namespace clora
