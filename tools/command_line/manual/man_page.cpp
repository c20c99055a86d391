#include "tools/command_line/manual/man_page.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "model/text/utf8.hpp"
#include "tools/command_line/manual/help_text.hpp"
#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

// Text for roff: no character of it is a command. A hyphen stays the one of the keyboard, so that
// options can be copied from the page.
std::string escaped(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char character = read_utf8(text, at);
    const char byte = text[at];
    if (character.length > 1) {
      result += fmt::format("\\[u{:04X}]", character.code_point);
    } else if (byte == '\\') {
      result += "\\e";
    } else if (byte == '-') {
      result += "\\-";
    } else if (byte == '\'') {
      result += "\\(aq";
    } else if (byte == '^' || byte == '~' || byte == '`') {
      result += byte == '^' ? "\\(ha" : byte == '~' ? "\\(ti" : "\\(ga";
    } else {
      result += byte;
    }
    at += character.length;
  }
  return result;
}

// A line of text or code, which may begin with the dot of a command.
std::string line_of(std::string_view text) {
  const std::string line = escaped(text);
  return (line.starts_with(".") ? "\\&" : "") + line + "\n";
}

std::string section(std::string_view title) { return fmt::format(".SH {}\n", title); }

std::string blocks(const std::vector<HelpBlock>& all) {
  std::string text;
  for (const HelpBlock& block : all) {
    if (!text.empty()) text += ".PP\n";
    if (block.code) text += ".RS 4\n.nf\n";
    for (const std::string& line : block.lines) text += line_of(line);
    if (block.code) text += ".fi\n.RE\n";
  }
  return text;
}

std::string page_name(const CommandFacts& command) {
  std::string name = command.full_name;
  replace_all(name, " ", "-");
  return name;
}

std::string reference_to(const std::string& page) {
  return fmt::format("\\fB{}\\fR(1)", escaped(page));
}

// "\fB--rank\fR=\fIINT\fR"
std::string option_names(const OptionFacts& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", escaped(name));
  }
  if (option.kind == ValueKind::none) return text;
  const std::string value = fmt::format("\\fI{}\\fR", escaped(option.value));
  if (option.value_attached) return text + fmt::format("[={}]", value);
  return text + (option.value_optional ? fmt::format(" [{}]", value) : " " + value);
}

bool ends_sentence(const std::string& text) { return text.empty() || text.back() == '.'; }

// What the description leaves to the columns of the help: words, range, default, variable.
std::string remarks_of(const OptionFacts& option) {
  std::vector<std::string> remarks;
  if (option.required) remarks.emplace_back("Required.");
  if (!option.words.empty()) {
    remarks.push_back(fmt::format("One of {}.", fmt::join(option.words, ", ")));
  }
  if (!option.range.empty()) remarks.push_back(fmt::format("Range: {}.", option.range));
  if (!option.default_value.empty()) {
    remarks.push_back(fmt::format("Default: {}.", option.default_value));
  }
  if (!option.variable.empty()) remarks.push_back(fmt::format("Environment: {}.", option.variable));
  return fmt::format("{}", fmt::join(remarks, " "));
}

std::string option_text(const std::string& heading, const OptionFacts& option) {
  const std::string remarks = remarks_of(option);
  std::string text = fmt::format(".TP\n{}\n{}", heading, line_of(option.description));
  if (!ends_sentence(option.description) && !remarks.empty()) text.insert(text.size() - 1, ".");
  return remarks.empty() ? text : text + line_of(remarks);
}

std::vector<std::string> groups_of(const std::vector<OptionFacts>& options) {
  std::vector<std::string> groups;
  for (const OptionFacts& option : options) {
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  }
  return groups;
}

std::string options_section(const CommandFacts& command) {
  std::string text = section("OPTIONS");
  for (const std::string& group : groups_of(command.options)) {
    if (group != "Options") text += fmt::format(".SS {}\n", escaped(group));  // CLI11's default
    for (const OptionFacts& option : command.options) {
      if (option.group == group) text += option_text(option_names(option), option);
    }
  }
  return text;
}

std::string arguments_section(const CommandFacts& command) {
  if (command.arguments.empty()) return "";
  std::string text = section("ARGUMENTS");
  for (const OptionFacts& argument : command.arguments) {
    text += option_text(fmt::format("\\fI{}\\fR", escaped(argument.value)), argument);
  }
  return text;
}

std::string synopsis(const CommandFacts& command) {
  std::string text = section("SYNOPSIS") + fmt::format("\\fB{}\\fR", escaped(command.full_name));
  if (!command.commands.empty()) return text + " \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n";
  for (const OptionFacts& option : command.options) {
    if (!option.required) continue;
    text +=
        fmt::format(" \\fB{}\\fR \\fI{}\\fR", escaped(option.names.back()), escaped(option.value));
  }
  text += " [\\fIOPTION\\fR]...";
  for (const OptionFacts& argument : command.arguments) {
    const bool dots = argument.repeats && !argument.value.ends_with("...");
    const std::string value =
        fmt::format("\\fI{}\\fR{}", escaped(argument.value), dots ? "..." : "");
    text += argument.required ? " " + value : fmt::format(" [{}]", value);
  }
  return text + "\n";
}

std::string commands_section(const CommandFacts& command) {
  if (command.commands.empty()) return "";
  std::string text = section("COMMANDS");
  for (const CommandFacts* below : all_commands(command)) {
    if (below == &command) continue;
    text +=
        fmt::format(".TP\n{}\n{}", reference_to(page_name(*below)), line_of(below->description));
  }
  return text;
}

// "fast kernels are used" as a sentence.
std::string sentence_of(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(text.front()));
  return text + ".";
}

std::string variables_section(const std::vector<VariableFacts>& variables) {
  if (variables.empty()) return "";
  std::string text = section("ENVIRONMENT");
  for (const VariableFacts& variable : variables) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}", escaped(variable.name),
                        line_of(sentence_of(variable.effect)));
  }
  return text;
}

// The pages of the program and of the group that a command is in.
std::string see_also(const CommandFacts& command, const CommandFacts& program) {
  std::vector<std::string> pages;
  for (const CommandFacts* other : all_commands(program)) {
    if (command.full_name.starts_with(other->full_name + ' ')) {
      pages.push_back(reference_to(page_name(*other)));
    }
  }
  if (pages.empty()) return "";
  return section("SEE ALSO") + fmt::format("{}\n", fmt::join(pages, ",\n"));
}

struct Manual {
  const CommandFacts& program;
  const std::string& version;
  const std::vector<VariableFacts>& variables;
};

std::string page_text(const CommandFacts& command, const Manual& manual) {
  const HelpText help = help_text(command.footer);
  const bool whole = &command == &manual.program;
  std::string title = page_name(command);
  std::string upper = title;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string about = command.description;  // "clora: LoRA fine-tuning ..." of the program
  if (about.starts_with(title + ": ")) about.erase(0, title.size() + 2);
  std::string text = fmt::format(".TH \"{}\" 1 \"\" \"{} {}\" \"User Commands\"\n", escaped(upper),
                                 manual.program.word, manual.version);
  text += section("NAME") + fmt::format("{} \\- {}", escaped(title), line_of(about));
  text += synopsis(command);
  if (!help.description.empty()) text += section("DESCRIPTION") + blocks(help.description);
  text += commands_section(command) + arguments_section(command) + options_section(command);
  if (!help.examples.empty()) text += section("EXAMPLES") + blocks(help.examples);
  if (whole) text += variables_section(manual.variables);
  const std::string codes =
      help.exit_codes.empty() ? help_text(manual.program.footer).exit_codes : help.exit_codes;
  if (!codes.empty()) text += section("EXIT STATUS") + line_of(codes);
  return text + see_also(command, manual.program);
}

}  // namespace

std::vector<ManPage> man_pages(const CommandFacts& program, const std::string& version,
                               const std::vector<VariableFacts>& variables) {
  const Manual manual{program, version, variables};
  std::vector<ManPage> pages;
  for (const CommandFacts* command : all_commands(program)) {
    pages.push_back({.file = page_name(*command) + ".1", .text = page_text(*command, manual)});
  }
  return pages;
}

}  // namespace clora
