// What a kernel needs of a device, from what compilers tell of it. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program_report.hpp"

namespace clora {

// What is not known is empty.
struct KernelFigures {
  std::string kernel;
  std::optional<std::size_t> registers = {};         // of an item; AMD's VGPRs
  std::optional<std::size_t> scalar_registers = {};  // of a wave; AMD's SGPRs
  std::optional<std::size_t> spills = {};         // NVIDIA: bytes stored and loaded; AMD: registers
  std::optional<std::size_t> private_bytes = {};  // of an item, in memory
  std::optional<std::size_t> local_bytes = {};    // of a group, without arguments of __local
  std::optional<std::size_t> max_group = {};
  std::array<std::size_t, 3> required_group{};  // 0: none
  bool local_arguments = false;                 // of a size that the launch tells

  std::size_t required_items() const noexcept {
    return required_group[0] * required_group[1] * required_group[2];
  }
};

// The metadata at the end of AMD's assembly (LLVM's "User Guide for AMDGPU Backend", code object
// V4).
std::vector<KernelFigures> figures_of_amd(std::string_view assembly);

// What PTX tells by itself: local and private memory, required groups; no registers.
std::vector<KernelFigures> figures_of_ptx(std::string_view ptx);

// Adds what ptxas -v, or a driver with -cl-nv-verbose, says of these kernels.
void add_ptxas_figures(std::vector<KernelFigures>& kernels, std::string_view log);

// What a driver tells; its log is read with add_ptxas_figures().
std::vector<KernelFigures> figures_of_reports(const std::vector<KernelReport>& reports);

}  // namespace clora
