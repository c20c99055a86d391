// The rule extension-unchecked of clc lint.
#include <set>

#include "tools/clc/lint/lint_rules.hpp"

namespace clora {
namespace {

bool declares_double(const SyntaxNode& node) {
  const bool declares = node.is("VarDecl") || node.is("ParmVarDecl") || node.is("FieldDecl") ||
                        node.is("CStyleCastExpr");
  return declares && unqualified(node.type).starts_with("double");
}

// The extension that provides the called function; empty if there is none.
std::string_view extension_of_call(const SyntaxNode& node) {
  const std::string_view called = node.callee();
  if (called.starts_with("sub_group_") || called.starts_with("get_sub_group_")) {
    return "cl_khr_subgroups";
  }
  if (!called.starts_with("atom_") || node.children.size() < 2) return {};
  const bool is_of_64_bits = node.children[1].type.find("long") != std::string::npos;
  if (!is_of_64_bits) return {};
  const bool is_further = called == "atom_min" || called == "atom_max" || called == "atom_and" ||
                          called == "atom_or" || called == "atom_xor";
  return is_further ? "cl_khr_int64_extended_atomics" : "cl_khr_int64_base_atomics";
}

}  // namespace

void find_unchecked_extensions(const LintInput& input, Report& report) {
  for (const ClangMessage& message : input.reading.messages) {
    if (is_about_extensions(message)) report.at(message.location, message.text);
  }
  const bool has_doubles = input.enables("cl_khr_fp64");
  visit(input.tree(), [&](const SyntaxNode& node) {
    const std::string_view extension = extension_of_call(node);
    if (!has_doubles && declares_double(node)) {
      report.at(node,
                "a double without cl_khr_fp64; write #pragma OPENCL EXTENSION cl_khr_fp64 : "
                "enable, or use float");
    } else if (!extension.empty() && !input.enables(extension)) {
      report.at(
          node,
          std::string(node.callee()) +
              "() belongs to an extension that is not enabled; write #pragma OPENCL EXTENSION " +
              std::string(extension) + " : enable");
    }
    return true;
  });
}

}  // namespace clora
