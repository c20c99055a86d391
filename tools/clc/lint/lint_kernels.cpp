// The rules of clc lint about entire kernels: attributes, arguments and memory.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tools/clc/lint/lint_rules.hpp"
#include "tools/clc/lint/lint_work_items.hpp"

namespace clora {
namespace {

bool is_local_variable(const SyntaxNode& node) {
  return node.is("VarDecl") && node.type.starts_with("__local ") &&
         node.type.find('*') == std::string::npos;
}

bool has_attribute(const SyntaxNode& function, std::string_view kind) {
  return std::ranges::any_of(function.children,
                             [&](const SyntaxNode& each) { return each.is(kind); });
}

std::vector<const SyntaxNode*> parameters_of(const SyntaxNode& function) {
  std::vector<const SyntaxNode*> parameters;
  for (const SyntaxNode& each : function.children) {
    if (each.is("ParmVarDecl")) parameters.push_back(&each);
  }
  return parameters;
}

bool is_global_pointer(const SyntaxNode& parameter) {
  return parameter.type.find('*') != std::string::npos &&
         parameter.type.find("__global") != std::string::npos;
}

// How a kernel depends on the size of its work-group; empty: it does not.
class SizeUse {
 public:
  explicit SizeUse(const SyntaxNode& tree) {
    for (const SyntaxNode* function : functions_of(tree)) bodies_[function->name] = function;
  }

  std::string in(const SyntaxNode& function) {
    std::string found;
    if (!seen_.insert(function.name).second) return found;
    visit(function, [&](const SyntaxNode& node) {
      if (found.empty()) found = of(node);
      return found.empty();
    });
    return found;
  }

 private:
  std::string of(const SyntaxNode& node) {
    if (is_local_variable(node)) return "local memory";
    if (node.is("ParmVarDecl") && node.type.starts_with("__local ")) return "local memory";
    const std::string called(node.callee());
    if (called.empty()) return {};
    if (is_barrier(called)) return "a barrier";
    if (called == "get_local_id" || called == "get_local_size") return called + "()";
    const auto body = bodies_.find(called);
    return body == bodies_.end() ? "" : in(*body->second);
  }

  std::map<std::string, const SyntaxNode*> bodies_;
  std::set<std::string> seen_;
};

// Whether the type is a vector of three ("int3"), in OpenCL's or in clang's resolved form.
bool is_of_three(const SyntaxNode& parameter) {
  constexpr std::array<std::string_view, 11> scalars{"char",  "uchar",  "short", "ushort",
                                                     "int",   "uint",   "long",  "ulong",
                                                     "float", "double", "half"};
  if (parameter.type.find("ext_vector_type(3)") != std::string::npos) return true;
  const std::string type = unqualified(parameter.type);
  return std::ranges::any_of(scalars, [&](std::string_view scalar) {
    return type.starts_with(std::string(scalar) + "3 ");
  });
}

// The names of structs that contain pointers.
std::set<std::string> structs_with_pointers(const SyntaxNode& tree) {
  std::set<std::string> names;
  bool has_pointer = false;  // of the preceding struct, whose typedef may follow
  for (const SyntaxNode& each : tree.children) {
    if (each.is("RecordDecl")) {
      has_pointer = std::ranges::any_of(each.children, [](const SyntaxNode& field) {
        return field.is("FieldDecl") && field.type.find('*') != std::string::npos;
      });
    } else if (!each.is("TypedefDecl")) {
      has_pointer = false;
    }
    if (has_pointer) names.insert(each.name);
  }
  return names;
}

bool is_one_of(const SyntaxNode& parameter, const std::set<std::string>& structs) {
  std::string type = unqualified(parameter.type);
  if (type.starts_with("struct ")) type.erase(0, std::string_view("struct ").size());
  return structs.contains(type);
}

}  // namespace

void find_local_memory_on_cpu(const LintInput& input, Report& report) {
  if (!input.is_for_cpu) return;
  visit(input.tree(), [&](const SyntaxNode& node) {
    if (is_local_variable(node)) {
      report.at(node, "local memory '" + node.name +
                          "' in a file for CPUs, where it is ordinary memory; use a private array");
    } else if (is_barrier(node.callee())) {
      report.at(node,
                "a barrier in a file for CPUs, where it splits the kernel into loops over the "
                "items; use work-groups of one item");
    }
    return true;
  });
}

void find_missing_work_group_size(const LintInput& input, Report& report) {
  for (const SyntaxNode* function : functions_of(input.tree())) {
    if (!is_kernel(*function) || has_attribute(*function, "ReqdWorkGroupSizeAttr")) continue;
    const std::string use = SizeUse(input.tree()).in(*function);
    if (use.empty()) continue;
    report.at(*function,
              "kernel '" + function->name + "' uses " + use +
                  " without reqd_work_group_size; declare the size that it is launched with");
  }
}

void find_pointers_without_restrict(const LintInput& input, Report& report) {
  for (const SyntaxNode* function : functions_of(input.tree())) {
    if (!is_kernel(*function)) continue;
    int pointers = 0, written = 0, plain = 0;
    for (const SyntaxNode* each : parameters_of(*function)) {
      if (!is_global_pointer(*each)) continue;
      ++pointers;
      if (!each->type.starts_with("const ")) ++written;
      if (each->type.find("restrict") == std::string::npos) ++plain;
    }
    if (pointers < 2 || written == 0 || plain == 0) continue;
    report.at(*function, "kernel '" + function->name + "' writes through one of " +
                             std::to_string(pointers) + " global pointers, but " +
                             std::to_string(plain) +
                             " lack restrict; add it to pointers that do not alias another");
  }
}

void find_host_arguments(const LintInput& input, Report& report) {
  for (const ClangMessage& message : input.reading.messages) {
    if (is_about_arguments(message)) report.at(message.location, message.text);
  }
  const std::set<std::string> structs = structs_with_pointers(input.tree());
  for (const SyntaxNode* function : functions_of(input.tree())) {
    if (!is_kernel(*function)) continue;
    for (const SyntaxNode* each : parameters_of(*function)) {
      const std::string name = "argument '" + each->name + "' ";
      if (is_of_three(*each)) {
        report.at(*each, name +
                             "has vectors of 3, which take the space of 4 here but often of 3 on "
                             "the host; use vectors of 4, or vload3 from a pointer to scalars");
      } else if (is_one_of(*each, structs)) {
        report.at(*each, name +
                             "is a struct with pointers, which the host cannot fill; pass each "
                             "buffer as a separate argument");
      }
    }
  }
}

}  // namespace clora
