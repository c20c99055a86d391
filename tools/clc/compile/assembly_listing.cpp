#include "tools/clc/compile/assembly_listing.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

namespace clora {
namespace {

constexpr std::string_view kShim = "builtins";

std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

std::string cleaned(std::string line) {
  line.resize(std::min({line.size(), line.find("; "), line.find("//")}));
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
  std::ranges::replace(line, '\t', ' ');
  return line;
}

// The files of all '.file 1 "folder" "name"' directives.
std::map<int, std::string> files_of(const std::vector<std::string>& lines) {
  static const std::regex kFile(R"re(^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?)re");
  std::map<int, std::string> files;
  std::smatch match;
  for (const std::string& line : lines) {
    if (line.find(".file") == std::string::npos || !std::regex_search(line, match, kFile)) continue;
    const std::string path = match[3].matched ? match[3].str() : match[2].str();
    files[std::stoi(match[1])] = std::filesystem::path(path).filename().string();
  }
  return files;
}

// The kernels defined in a text: AMD marks them with .amdhsa_kernel, NVIDIA with .entry.
std::set<std::string> kernels_of(const std::vector<std::string>& lines) {
  static const std::regex kKernel(R"(\.(?:amdhsa_kernel|entry) ([\w$]+))");
  std::set<std::string> kernels;
  std::smatch match;
  for (const std::string& line : lines) {
    if (std::regex_search(line, match, kKernel)) kernels.insert(match[1]);
  }
  return kernels;
}

bool is_marker(const std::string& text) {  // a label of debug information
  return text.ends_with(':') &&
         (text.find("Ltmp") != std::string::npos || text.find("Lfunc_") != std::string::npos);
}

// Walks through a text and tracks the current kernel and source line.
class Walk {
 public:
  Walk(const std::map<int, std::string>& files, const std::set<std::string>& kernels)
      : files_(files), kernels_(kernels) {}

  void take(const std::string& line) {
    static const std::regex kEntry(R"(\.entry ([\w$]+))");
    static const std::regex kLabel(R"(^([\w$]+):)");
    std::smatch match;
    if (std::regex_search(line, match, kEntry)) {
      begin(match[1]);
      in_head_ = true;
    } else if (std::regex_search(line, match, kLabel) && kernels_.contains(match[1])) {
      begin(match[1]);
    } else if (line.starts_with("{")) {
      in_head_ = false;
    } else if (line.starts_with("}") || line.find("Lfunc_end") != std::string::npos) {
      within_ = false;
    } else if (within_ && !in_head_) {
      take_code(line);
    }
  }
  std::vector<KernelListing> listings;

 private:
  void begin(const std::string& kernel) {
    listings.push_back({kernel, {}});
    within_ = true;
    file_.clear();
    line_ = 0;
  }

  void take_code(const std::string& line) {
    static const std::regex kPlace(R"(^\s*\.loc\s+(\d+)\s+(\d+))");
    std::smatch match;
    if (std::regex_search(line, match, kPlace)) {
      const auto found = files_.find(std::stoi(match[1]));
      if (found == files_.end() || found->second.starts_with(kShim)) return;
      if (match[2] == "0") return;  // no source line
      file_ = found->second;
      line_ = std::stoi(match[2]);
      return;
    }
    const std::string text = cleaned(line);
    const bool directive = text.starts_with(".") && !text.ends_with(":");
    if (text.empty() || directive || is_marker(text)) return;
    listings.back().lines.push_back({file_, line_, text});
  }

  const std::map<int, std::string>& files_;
  const std::set<std::string>& kernels_;
  bool within_ = false, in_head_ = false;
  std::string file_;
  int line_ = 0;
};

// The address within the function that "jne 21f1 <_pocl_kernel_k_workgroup+0x61>" jumps to.
std::optional<std::string> target_of(const std::string& text, const std::string& function) {
  static const std::regex kTarget(R"(^(\S+) +([0-9a-f]+) <([^>+]+))");
  std::smatch match;
  if (!std::regex_search(text, match, kTarget) || match[3] != function) return {};
  return match[2].str();
}

using Function = std::vector<std::pair<std::string, std::string>>;  // addresses and instructions

std::map<std::string, Function> functions_of(std::string_view objdump) {
  static const std::regex kName(R"(^[0-9a-f]+ <(.*)>:$)");
  static const std::regex kInstruction(R"(^\s*([0-9a-f]+):\t(.*)$)");
  std::map<std::string, Function> functions;
  std::string name;
  std::smatch match;
  for (const std::string& line : lines_of(objdump)) {
    if (std::regex_match(line, match, kName)) name = match[1];
    if (!std::regex_match(line, match, kInstruction)) continue;
    std::string words = match[2];
    words.resize(std::min(words.size(), words.find(" #")));
    words.resize(words.find_last_not_of(' ') + 1);
    functions[name].emplace_back(match[1], words);
  }
  return functions;
}

// The functions that `function` calls, in order.
std::vector<std::string> callees_of(const Function& function) {
  static const std::regex kCall(R"(^callq? +[0-9a-f]+ <([^>+@]+)>)");
  std::vector<std::string> names;
  std::smatch match;
  for (const auto& [address, words] : function) {
    if (std::regex_search(words, match, kCall)) names.push_back(match[1]);
  }
  return names;
}

// Appends a function with labels in place of its addresses, numbered on from `labels`.
void append(KernelListing& listing, const std::string& name, const Function& function,
            int& labels) {
  std::map<std::string, std::string> label_of;
  for (const auto& [address, words] : function) {
    if (const auto target = target_of(words, name)) label_of[*target];
  }
  for (const auto& [address, words] : function) {
    const auto label = label_of.find(address);
    if (label != label_of.end()) label->second = 'L' + std::to_string(++labels);
  }
  for (const auto& [address, words] : function) {
    const auto label = label_of.find(address);
    if (label != label_of.end()) listing.lines.push_back({"", 0, label->second + ':'});
    const auto target = target_of(words, name);
    const bool jumps = target && !label_of[*target].empty();
    listing.lines.push_back(
        {"", 0, jumps ? words.substr(0, words.find(' ')) + ' ' + label_of[*target] : words});
  }
}

}  // namespace

std::vector<KernelListing> listings_of(std::string_view assembly) {
  const std::vector<std::string> lines = lines_of(assembly);
  const std::map<int, std::string> files = files_of(lines);
  const std::set<std::string> kernels = kernels_of(lines);
  Walk walk(files, kernels);
  for (const std::string& line : lines) walk.take(line);
  std::ranges::sort(walk.listings, {}, &KernelListing::kernel);
  return std::move(walk.listings);
}

KernelListing listing_of_objdump(std::string_view text, const std::string& kernel) {
  const std::map<std::string, Function> functions = functions_of(text);
  std::vector<std::string> wanted{"_pocl_kernel_" + kernel + "_workgroup"};
  KernelListing listing{kernel, {}};
  int labels = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {  // grows by what each function calls
    const auto found = functions.find(wanted[i]);
    if (found == functions.end()) continue;
    if (i > 0) listing.lines.push_back({"", 0, wanted[i] + ':'});
    append(listing, found->first, found->second, labels);
    for (const std::string& callee : callees_of(found->second)) {
      if (std::ranges::find(wanted, callee) == wanted.end()) wanted.push_back(callee);
    }
  }
  return listing;
}

std::string normalised(const KernelListing& listing) {
  static const std::regex kLabel(R"(\$?\.?L(?:__)?BB\d+_\d+)");
  static const std::regex kPlace(R"(0x[0-9a-f]+\(%rip\))");
  static const std::regex kFiller(R"(\bnop[wl]?\b|^xchg +%ax,%ax)");
  std::map<std::string, std::string> labels;
  std::string all;
  for (const AssemblyLine& line : listing.lines) {
    if (std::regex_search(line.text, kFiller)) continue;
    std::string rest = std::regex_replace(line.text, kPlace, "(%rip)"), text;
    for (std::smatch match; std::regex_search(rest, match, kLabel);) {
      const std::string next = 'L' + std::to_string(labels.size() + 1);
      text += match.prefix().str() + labels.try_emplace(match[0], next).first->second;
      rest = match.suffix().str();
    }
    all += text + rest + '\n';
  }
  return all;
}

}  // namespace clora
