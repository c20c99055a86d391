#include "tools/clc/compile/kernel_figures.hpp"

#include <algorithm>
#include <charconv>
#include <regex>
#include <sstream>

namespace clora {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::size_t number_of(std::string_view text) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Parses a metadata line ".vgpr_count:     32".
void take_amd_entry(KernelFigures& kernel, std::string_view name, std::string_view value) {
  const auto add = [&](std::optional<std::size_t>& to) { to = to.value_or(0) + number_of(value); };
  if (name == ".name") kernel.kernel = value;
  if (name == ".vgpr_count") kernel.registers = number_of(value);
  if (name == ".sgpr_count") kernel.scalar_registers = number_of(value);
  if (name == ".vgpr_spill_count" || name == ".sgpr_spill_count") add(kernel.spills);
  if (name == ".private_segment_fixed_size") kernel.private_bytes = number_of(value);
  if (name == ".group_segment_fixed_size") kernel.local_bytes = number_of(value);
  if (name == ".max_flat_workgroup_size") kernel.max_group = number_of(value);
}

// The variable and size in ".shared .align 4 .b8 gemm_$_left[4160];".
struct PtxVariable {
  std::string name;
  std::size_t bytes = 0;
};
std::optional<PtxVariable> ptx_variable(const std::string& line, const std::string& space) {
  if (line.find('.' + space + ' ') == std::string::npos) return {};
  static const std::regex kVariable(R"(\.[a-z]+(\d+)\s+([\w$%.]+)(?:\[(\d+)\])?[;\s=])");
  std::smatch match;
  if (!std::regex_search(line, match, kVariable)) return {};
  const std::size_t count = match[3].matched ? number_of(match[3].str()) : 1;
  return PtxVariable{match[2], number_of(match[1].str()) / 8 * count};
}

void take_ptx_line(KernelFigures& kernel, const std::string& line) {
  static const std::regex kGroup(R"(^\.reqntid\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?)");
  std::smatch match;
  if (const auto found = ptx_variable(line, "local")) *kernel.private_bytes += found->bytes;
  if (line.find(".ptr .shared") != std::string::npos) kernel.local_arguments = true;
  if (std::regex_search(line, match, kGroup)) {
    for (std::size_t i = 0; i < 3; ++i) {
      kernel.required_group.at(i) = match[i + 1].matched ? number_of(match[i + 1].str()) : 1;
    }
  }
}

KernelFigures& kernel_named(std::vector<KernelFigures>& kernels, const std::string& name) {
  const auto found = std::ranges::find(kernels, name, &KernelFigures::kernel);
  if (found != kernels.end()) return *found;
  kernels.push_back({.kernel = name});
  return kernels.back();
}

// Parses "Used 40 registers, used 1 barriers, 8192 bytes smem, ...".
void take_used(KernelFigures& kernel, const std::string& line) {
  static const std::regex kRegisters(R"(Used (\d+) registers)");
  static const std::regex kLocal(R"((\d+)(?:\+\d+)? bytes smem)");
  std::smatch match;
  if (!std::regex_search(line, match, kRegisters)) return;
  kernel.registers = number_of(match[1].str());
  if (!std::regex_search(line, match, kLocal)) return;
  // ptxas does not count local memory that the launch supplies (offline_build.hpp).
  kernel.local_bytes = std::max(kernel.local_bytes.value_or(0), number_of(match[1].str()));
}

// Parses "8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads".
void take_stack(KernelFigures& kernel, const std::string& line) {
  static const std::regex kStack(R"((\d+) bytes stack)");
  static const std::regex kSpills(R"((\d+) bytes spill stores, (\d+) bytes spill loads)");
  std::smatch match;
  if (std::regex_search(line, match, kStack)) kernel.private_bytes = number_of(match[1].str());
  if (std::regex_search(line, match, kSpills)) {
    kernel.spills = number_of(match[1].str()) + number_of(match[2].str());
  }
}

}  // namespace

std::vector<KernelFigures> figures_of_amd(std::string_view assembly) {
  std::vector<KernelFigures> kernels;
  std::istringstream lines{
      std::string(assembly.substr(std::min(assembly.find("\namdhsa.kernels:"), assembly.size())))};
  std::size_t next = 3;  // next dimension of the work-group size; one per line
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("amdhsa.target") || line.starts_with("...")) break;
    if (line.starts_with("  - ")) kernels.emplace_back();
    if (kernels.empty() || line.size() < 4) continue;
    const std::string_view entry = without_blanks(std::string_view(line).substr(4));
    const bool of_kernel = line[4] == '.';
    if (entry.starts_with("- ") && next < 3) {
      kernels.back().required_group.at(next++) = number_of(entry.substr(2));
    } else if (of_kernel) {
      const std::size_t colon = std::min(entry.find(':'), entry.size() - 1);
      next = entry.starts_with(".reqd_workgroup_size") ? 0 : 3;
      take_amd_entry(kernels.back(), entry.substr(0, colon),
                     without_blanks(entry.substr(colon + 1)));
    } else if (entry.find("dynamic_shared_pointer") != std::string_view::npos) {
      kernels.back().local_arguments = true;
    }
  }
  std::ranges::sort(kernels, {}, &KernelFigures::kernel);
  return kernels;
}

std::vector<KernelFigures> figures_of_ptx(std::string_view ptx) {
  static const std::regex kEntry(R"(\.entry ([\w$]+))");
  std::vector<KernelFigures> kernels;
  std::vector<PtxVariable> shared;  // may appear anywhere; their names begin with the kernel's name
  bool within = false;
  std::istringstream lines{std::string(ptx)};
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, kEntry)) {
      kernels.push_back({.kernel = match[1], .private_bytes = 0, .local_bytes = 0});
      within = true;
    }
    const bool variable = line.find(".param") == std::string::npos;
    if (const auto found = ptx_variable(line, "shared"); found && variable)
      shared.push_back(*found);
    if (within) take_ptx_line(kernels.back(), line);
    if (line.starts_with("}")) within = false;
  }
  for (KernelFigures& kernel : kernels) {
    for (const PtxVariable& each : shared) {
      if (each.name.starts_with(kernel.kernel + "_$_") ||
          each.name.starts_with(kernel.kernel + '.')) {
        *kernel.local_bytes += each.bytes;
      }
    }
  }
  std::ranges::sort(kernels, {}, &KernelFigures::kernel);
  return kernels;
}

void add_ptxas_figures(std::vector<KernelFigures>& kernels, std::string_view log) {
  static const std::regex kEntry(R"(Compiling entry function '([^']+)')");
  static const std::regex kFunction(R"(Function properties for '?([\w$]+))");
  std::istringstream lines{std::string(log)};
  std::string entry, function;  // of the current lines; a kernel may have separate functions
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, kEntry)) {
      entry = function = match[1];
    } else if (std::regex_search(line, match, kFunction)) {
      function = match[1];
    } else if (!entry.empty()) {
      // A driver may report everything in one line: "Used 40 registers, 8 bytes stack, 0 bytes
      // spill stores".
      const bool of_entry = function == entry || line.find("Used ") != std::string::npos;
      if (of_entry) take_stack(kernel_named(kernels, entry), line);
      take_used(kernel_named(kernels, entry), line);
    }
  }
}

std::vector<KernelFigures> figures_of_reports(const std::vector<KernelReport>& reports) {
  std::vector<KernelFigures> kernels;
  for (const KernelReport& each : reports) {
    const bool local_arguments = std::ranges::any_of(each.arguments, [](const KernelArgument& a) {
      return a.space == KernelArgument::Space::local;
    });
    kernels.push_back({.kernel = each.name,
                       .private_bytes = each.private_bytes,
                       .local_bytes = each.local_bytes,
                       .max_group = each.max_group,
                       .required_group = each.required_group,
                       .local_arguments = local_arguments});
  }
  return kernels;
}

// The kernels are described at the beginning of the text; from "kernels_misc_info:" on their
// arguments are.
std::vector<KernelFigures> figures_of_intel(std::string_view binary, const std::string& messages) {
  static const std::regex kEntry(R"(^ +(- )?(name|grf_count|slm_size|private_size): +(\S+))");
  static const std::regex kGroup(R"(^ +required_work_group_size: +\[ *(\d+), *(\d+), *(\d+) *\])");
  const std::size_t begin = std::min(binary.find("\nkernels:"), binary.size());
  const std::string_view from_kernels = binary.substr(begin);
  std::istringstream lines{
      std::string(from_kernels.substr(0, from_kernels.find("kernels_misc_info:")))};
  std::vector<KernelFigures> kernels;
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  - name:") && std::regex_search(line, match, kEntry)) {
      kernels.push_back({.kernel = match[3], .spills = 0, .private_bytes = 0, .local_bytes = 0});
    } else if (kernels.empty()) {
      continue;
    } else if (std::regex_search(line, match, kGroup)) {
      for (std::size_t i = 0; i < 3; ++i) {
        kernels.back().required_group.at(i) = number_of(match[i + 1].str());
      }
    } else if (std::regex_search(line, match, kEntry)) {
      const std::size_t value = number_of(match[3].str());
      if (match[2] == "grf_count") kernels.back().registers = value;
      if (match[2] == "slm_size") kernels.back().local_bytes = value;
      if (match[2] == "private_size") kernels.back().private_bytes = value;
    }
  }
  for (KernelFigures& kernel : kernels) {
    const std::regex spilled("kernel " + kernel.kernel + R"( .*spilled around (\d+))");
    if (std::regex_search(messages, match, spilled)) kernel.spills = number_of(match[1].str());
  }
  std::ranges::sort(kernels, {}, &KernelFigures::kernel);
  return kernels;
}

}  // namespace clora
