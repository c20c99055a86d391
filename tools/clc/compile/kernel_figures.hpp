// The resource usage of kernels as compilers report it. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/programs/program_report.hpp"

namespace clora {

// Unknown figures are empty.
struct KernelFigures {
  std::string kernel;
  std::optional<std::size_t> registers = {};  // per work-item; AMD's VGPRs; Intel: per thread
  std::optional<std::size_t> scalar_registers = {};  // per wave; AMD's SGPRs
  std::optional<std::size_t> spills = {};         // NVIDIA: bytes stored and loaded; AMD: registers
  std::optional<std::size_t> private_bytes = {};  // per work-item
  std::optional<std::size_t> local_bytes = {};    // per work-group, without __local arguments
  std::optional<std::size_t> max_group = {};
  std::array<std::size_t, 3> required_group{};  // 0: none
  bool local_arguments = false;                 // sized at launch

  std::size_t required_items() const noexcept {
    return required_group[0] * required_group[1] * required_group[2];
  }
};

// Parses the metadata at the end of AMD's assembly (LLVM's "User Guide for AMDGPU Backend", code
// object V4).
std::vector<KernelFigures> figures_of_amd(std::string_view assembly);

// Parses the description of the kernels in Intel's binaries (ELF section .ze_info), and the spills
// in the compiler's messages.
std::vector<KernelFigures> figures_of_intel(std::string_view binary, const std::string& messages);

// The figures stated in PTX: local and private memory, required work-group sizes; no registers.
std::vector<KernelFigures> figures_of_ptx(std::string_view ptx);

// Adds the figures reported by ptxas -v or by a driver with -cl-nv-verbose.
void add_ptxas_figures(std::vector<KernelFigures>& kernels, std::string_view log);

// The figures that a driver reports through OpenCL; add_ptxas_figures() reads its log.
std::vector<KernelFigures> figures_of_reports(const std::vector<KernelReport>& reports);

}  // namespace clora
