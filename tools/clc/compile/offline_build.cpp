#include "tools/clc/compile/offline_build.hpp"

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "runtime/device/hopper_ptx.hpp"
#include "runtime/fail.hpp"
#include "tools/clc/compile/shim/sources.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

constexpr double kSeconds = 120;
constexpr const char* kCompiler = "clang-14";
// Drivers inline all functions.
constexpr const char* kInlineAll = "-inline-threshold=100000";

// clang-14 supports up to sm_86 and PTX 7.5; the PTX for sm_90a is derived from that.
std::string processor_of(const Target& target) {
  return std::string(target.name == "sm_90a" ? "sm_86" : target.name);
}

std::vector<std::string> target_words(const Target& target) {
  if (target.maker == Target::Maker::amd) {
    return {"-target", "amdgcn-amd-amdhsa", "-mcpu=" + processor_of(target), "-nogpulib"};
  }
  return {
      "-target", "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", processor_of(target),
      "-Xclang", "-target-feature",     "-Xclang", "+ptx75"};
}

// The options that clang supports. The others are specific to drivers and do not change results.
std::vector<std::string> words_for_clang(const std::string& options) {
  std::vector<std::string> words;
  bool has_standard = false;
  for (std::string& word : option_words(options)) {
    has_standard = has_standard || word.starts_with("-cl-std=");
    if (word.starts_with("-cl-nv-") || word.starts_with("-cl-intel-") ||
        word == "-cl-kernel-arg-info") {
      continue;
    }
    words.push_back(std::move(word));
  }
  if (!has_standard) words.emplace_back("-cl-std=CL1.2");
  return words;
}

// Parses LLVM's "define ... @NAME(...) ... !reqd_work_group_size !7" and "!7 = !{i32 16, i32 16,
// i32 1}".
std::map<std::string, std::array<std::size_t, 3>> required_groups_of(const std::string& llvm) {
  static const std::regex kNode(R"(^(!\d+) = !\{i32 (\d+), i32 (\d+), i32 (\d+)\}$)");
  static const std::regex kKernel(R"(@([\w$.]+)\()");
  constexpr std::string_view kMark = "!reqd_work_group_size ";
  std::map<std::string, std::string> node_of_kernel;
  std::map<std::string, std::array<std::size_t, 3>> nodes, groups;
  std::istringstream lines(llvm);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t mark = line.find(kMark);
    if (line.starts_with("define ") && mark != std::string::npos &&
        std::regex_search(line, match, kKernel)) {
      const std::size_t node = mark + kMark.size();
      node_of_kernel[match[1]] = line.substr(node, line.find(' ', node) - node);
    } else if (line.starts_with("!") && std::regex_match(line, match, kNode)) {
      nodes[match[1]] = {std::stoul(match[2]), std::stoul(match[3]), std::stoul(match[4])};
    }
  }
  for (const auto& [kernel, node] : node_of_kernel) groups[kernel] = nodes[node];
  return groups;
}

// clang-14 omits the required work-group size, which determines the registers that ptxas may use.
std::string with_required_groups(std::string ptx,
                                 const std::map<std::string, std::array<std::size_t, 3>>& groups) {
  for (const auto& [kernel, size] : groups) {
    const std::size_t entry = ptx.find(".entry " + kernel + "(");
    const std::size_t body = entry == std::string::npos ? entry : ptx.find("\n{", entry);
    if (body == std::string::npos) continue;
    ptx.insert(body, fmt::format("\n.reqntid {}, {}, {}", size[0], size[1], size[2]));
  }
  return ptx;
}

void replace_first(std::string& text, std::string_view words, std::string_view by) {
  const std::size_t at = text.find(words);
  if (at != std::string::npos) text.replace(at, words.size(), by);
}

std::string for_hopper(std::string ptx) {
  replace_first(ptx, ".version 7.5", ".version 8.3");  // the first with all that cl/ uses
  replace_first(ptx, ".target sm_86,", ".target sm_90,");
  return with_hopper_instructions(std::move(ptx));
}

std::string_view package_of(std::string_view compiler) {
  return compiler == "ocloc" ? "intel-opencl-icd" : compiler;
}

OfflineBuild refused(const ProcessResult& result, std::string_view compiler) {
  std::string error = first_error(result.err);
  if (error.empty()) error = fmt::format("{} {}", compiler, end_text(result));
  return {.error = std::move(error)};
}

// The PTX with its local arrays declared without a size, as memory supplied by the launch.
std::string with_local_memory_from_launch(const std::string& ptx) {
  static const std::regex kArray(R"(^\s*\.shared (\.align \d+ \.b8\s+[\w$.]+)\[\d+\];)");
  std::istringstream lines(ptx);
  std::string outside, code;
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, kArray)) {
      outside += ".extern .shared " + match[1].str() + "[];\n";
    } else {
      code += line + '\n';
    }
  }
  const std::string_view head = ".address_size 64\n";
  const std::size_t at = code.find(head);
  return at == std::string::npos ? ptx : code.insert(at + head.size(), outside);
}

PtxasReport run_ptxas_in(const WorkFolder& folder, const std::string& program,
                         const std::string& ptx, const Target& target, const std::string& options) {
  constexpr std::string_view kMax = "-cl-nv-maxrregcount=";
  write_text(folder / "kernel.ptx", ptx);
  std::vector<std::string> command{program,
                                   "-v",
                                   fmt::format("-arch={}", target.name),
                                   folder / "kernel.ptx",
                                   "-o",
                                   folder / "kernel.cubin"};
  for (const std::string& word : option_words(options)) {
    if (word.starts_with(kMax)) command.push_back("-maxrregcount=" + word.substr(kMax.size()));
  }
  const ProcessResult result = run_process(command, kSeconds);
  std::string log = result.out + result.err;
  const std::string place = folder / "";
  for (std::size_t at = log.find(place); at != std::string::npos; at = log.find(place)) {
    log.erase(at, place.size());
  }
  return {result.succeeded(), log};
}

}  // namespace

OfflineCompiler::OfflineCompiler() {
  if (!has_program(kCompiler)) {
    fail(ErrorCode::not_found,
         "clc: compiling for a GPU that is not present requires {}, which is not in PATH; install "
         "the package clang-14, or use --target device",
         kCompiler);
  }
  for (const KernelSource& source : embedded_shim_sources()) {
    write_text(folder_ / source.file, source.text);
  }
}

OfflineBuild OfflineCompiler::build(const KernelFile& file, const Target& target,
                                    const std::string& options, bool source_lines) const {
  if (!has_program(target.compiler)) {
    return {.error = fmt::format("it requires {}, which is not in PATH; install the package {}",
                                 target.compiler, package_of(target.compiler))};
  }
  if (target.maker == Target::Maker::intel) return build_intel(file, target, options);
  const std::string text = folder_ / "kernel.cl";
  write_text(text, file.text);
  const std::string compiler(target.compiler);
  std::vector<std::string> command{compiler, "-x", "cl"};
  const auto append = [&command](const std::vector<std::string>& words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  append({"-cl-no-stdinc", "-O3", "-S", "-w", "-mllvm", kInlineAll, "-fno-crash-diagnostics",
          "-fno-caret-diagnostics", "-Dasm=__asm__"});
  append(target_words(target));
  append(words_for_clang(options));
  append({"-include", folder_ / "builtins.clh", text});
  for (const std::filesystem::path& each : file.folders) append({"-I", each.string()});
  if (source_lines) append({"-gline-tables-only"});
  if (target.maker == Target::Maker::nvidia) return build_ptx(command, target);
  const std::string assembly = folder_ / "kernel.s";
  append({"-o", assembly});
  const ProcessResult result = run_process(command, kSeconds);
  if (!result.succeeded()) return refused(result, compiler);
  OfflineBuild build{.built = true, .assembly = read_text(assembly)};
  if (build.assembly.find("#ASMSTART") == std::string::npos) return build;
  std::ranges::replace(command, "-S", "-c");  // -S prints inline assembly without parsing it
  append({"-o", folder_ / "kernel.o"});
  const ProcessResult assembled = run_process(command, kSeconds);
  return assembled.succeeded() ? build : refused(assembled, compiler);
}

// Intel's compiler writes one file, with a description of each kernel as text.
OfflineBuild OfflineCompiler::build_intel(const KernelFile& file, const Target& target,
                                          const std::string& options) const {
  const std::string text = folder_ / "kernel.cl";
  write_text(text, file.text);
  std::string all = options;
  for (const std::filesystem::path& each : file.folders) all += " -I " + each.string();
  if (options.find("-cl-std=") == std::string::npos) all += " -cl-std=CL1.2";
  const ProcessResult result = run_process(
      {std::string(target.compiler), "compile", "-file", text, "-device", std::string(target.name),
       "-options", all, "-internal_options", "-cl-intel-allow-zebin", "-output", "kernel",
       "-output_no_suffix", "-out_dir", folder_ / ""},
      kSeconds);
  if (!result.succeeded()) return refused(result, target.compiler);
  return {.built = true,
          .assembly = read_text(folder_ / "kernel"),
          .messages = result.out + result.err};
}

OfflineBuild OfflineCompiler::build_ptx(std::vector<std::string> command,
                                        const Target& target) const {
  const std::string llvm = folder_ / "kernel.ll", ptx = folder_ / "kernel.ptx";
  command.insert(command.end(), {"-emit-llvm", "-o", llvm});
  ProcessResult result = run_process(command, kSeconds);
  if (!result.succeeded()) return refused(result, kCompiler);
  std::vector<std::string> second{kCompiler, "-x",      "ir",
                                  "-O3",     "-Xclang", "-disable-llvm-passes",
                                  "-S",      "-w",      "-fno-crash-diagnostics"};
  const std::vector<std::string> words = target_words(target);
  second.insert(second.end(), words.begin(), words.end());
  second.insert(second.end(), {llvm, "-o", ptx});
  result = run_process(second, kSeconds);
  if (!result.succeeded()) return refused(result, kCompiler);
  OfflineBuild build{.built = true, .assembly = read_text(ptx)};
  build.required_groups = required_groups_of(read_text(llvm));
  build.assembly = with_required_groups(std::move(build.assembly), build.required_groups);
  if (target.name == "sm_90a") build.assembly = for_hopper(std::move(build.assembly));
  return build;
}

std::vector<std::string> option_words(std::string_view options) {
  std::vector<std::string> words;
  bool within = false;
  char quote = '\0';
  for (const char each : options) {
    if (quote == '\0' && (each == ' ' || each == '\t' || each == '\n')) {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    within = true;
    if (each == quote) {
      quote = '\0';
    } else if (quote == '\0' && (each == '"' || each == '\'')) {
      quote = each;
    } else {
      words.back() += each;
    }
  }
  return words;
}

std::string ptxas_program() {
  const char* named = std::getenv("CLORA_PTXAS");
  if (named != nullptr && *named != '\0') {
    if (!has_program(named)) {
      fail(ErrorCode::not_found, "clc: CLORA_PTXAS names '{}', which is not a program", named);
    }
    return named;
  }
  return has_program("ptxas") ? "ptxas" : "";
}

PtxasReport run_ptxas(const std::string& program, const std::string& ptx, const Target& target,
                      const std::string& options) {
  const WorkFolder folder;
  PtxasReport report = run_ptxas_in(folder, program, ptx, target, options);
  if (report.log.find("uses too much shared data") == std::string::npos) return report;
  // More than 48 KiB, which a driver allows if the device supports it.
  return run_ptxas_in(folder, program, with_local_memory_from_launch(ptx), target, options);
}

std::string first_error(std::string_view messages) {
  std::istringstream lines{std::string(messages)};
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error: ") != std::string::npos || line.find("fatal   : ") != std::string::npos ||
        line.find("error   : ") != std::string::npos) {
      return line;
    }
  }
  return {};
}

}  // namespace clora
