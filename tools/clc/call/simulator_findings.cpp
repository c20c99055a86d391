#include "tools/clc/call/simulator_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>

namespace clora {
namespace {

// A message: its first line, and the complete text.
struct Message {
  std::string title, text;
};

// Messages begin in the first column; their continuation lines are indented.
std::vector<Message> messages_in(const std::string& log) {
  std::vector<Message> messages;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (line.front() != '\t' && line.front() != ' ') messages.push_back({line, {}});
    if (!messages.empty()) messages.back().text += line + '\n';
  }
  return messages;
}

// Whether the message is caused by the simulator itself: it splits a vector store into a store of
// an undefined vector and one store per lane, and then reports the first.
bool is_own_store(const Message& message) {
  static const std::regex pattern(R"(store <\d+ x \w+> (undef|poison))");
  return std::regex_search(message.text, pattern);
}

std::string kind_of(const std::string& title) {
  const auto has = [&](std::string_view words) { return title.find(words) != std::string::npos; };
  if (has("data race")) return "race";
  if (has("Invalid read") || has("Invalid write") || has("exceeds static array size")) {
    return "out-of-bounds";
  }
  if (has("ninitialized")) return "uninitialised";
  if (has("divergence detected")) return "divergent barrier";
  return {};
}

struct Location {
  std::string file;
  int line = 0;
};

std::vector<Location> locations_in(const std::string& text) {
  static const std::regex pattern(R"(At line (\d+)(?: \(column \d+\))? of (.*):)");
  std::vector<Location> locations;
  for (std::sregex_iterator each(text.begin(), text.end(), pattern), end; each != end; ++each) {
    locations.push_back({(*each)[2].str(), std::stoi((*each)[1].str())});
  }
  return locations;
}

// The work-items or groups of a message: "work-item (1,0,0)", "group (0,0,0): Only 4 out of 16
// ...".
std::vector<std::string> actors_in(const std::string& text) {
  static const std::regex items(R"(Global(\(\d+,\d+,\d+\)))");
  static const std::regex group(R"(Work-group: (\(\d+,\d+,\d+\))\n\t(.*))");
  std::vector<std::string> actors;
  for (std::sregex_iterator each(text.begin(), text.end(), items), end; each != end; ++each) {
    actors.push_back("work-item " + (*each)[1].str());
  }
  std::smatch found;
  if (std::regex_search(text, found, group)) {
    actors.push_back("group " + found[1].str() + ": " + found[2].str());
  }
  return actors;
}

SimulatorFinding finding_of(const Message& message, const KernelFile& file) {
  static const std::regex address(R"((?: at)? (\w+ memory) address \w+)");
  SimulatorFinding finding{
      .kind = kind_of(message.title), .file = {}, .line = 0, .text = {}, .source = {}};
  finding.text = std::regex_replace(message.title, address, " $1");
  const std::vector<Location> locations = locations_in(message.text);
  const std::vector<std::string> actors = actors_in(message.text);
  if (!locations.empty()) {
    finding.file = locations[0].file;
    finding.line = locations[0].line;
    finding.source = file.line(finding.file, finding.line);
  }
  if (!actors.empty()) finding.text += ", " + actors[0];
  if (actors.size() > 1) finding.text += " and " + actors[1];
  if (locations.size() > 1)
    finding.text += fmt::format(" at {}:{}", locations[1].file, locations[1].line);
  return finding;
}

void add(std::vector<SimulatorFinding>& findings, SimulatorFinding finding) {
  const auto same = std::ranges::find_if(findings, [&](const SimulatorFinding& each) {
    return each.kind == finding.kind && each.file == finding.file && each.line == finding.line;
  });
  if (same == findings.end()) {
    findings.push_back(std::move(finding));
  } else {
    ++same->count;
  }
}

}  // namespace

std::string SimulatorFinding::location_text() const {
  std::string location = file.empty() ? "" : file + ": ";
  if (line > 0) location = fmt::format("{}:{}: ", file, line);
  return fmt::format("{}{}: {}{}", location, kind, text,
                     count > 1 ? fmt::format(" (and {} more like it)", count - 1) : "");
}

SimulatorFindings findings_in(const std::string& log, const KernelFile& file) {
  SimulatorFindings all;
  for (const Message& message : messages_in(log)) {
    if (message.title.find("suppressing further errors") != std::string::npos) {
      all.cut_short = true;
    } else if (message.title.find("OCLGRIND FATAL ERROR") != std::string::npos) {
      all.fatal = message.text;
    } else if (!kind_of(message.title).empty() && !is_own_store(message)) {
      add(all.findings, finding_of(message, file));
    }
  }
  return all;
}

}  // namespace clora
