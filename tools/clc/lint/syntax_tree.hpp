// The syntax tree of a kernel file from `clang -ast-dump=json`: each node with its kind, type and
// location. The kinds are clang's: "IfStmt", "DeclRefExpr".
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// A location in the text that clang parsed, counted from 1; line 0: outside the text.
struct TextSpot {
  int line = 0, column = 0;
  bool operator==(const TextSpot&) const = default;
};

struct SyntaxNode {
  std::string kind;    // empty: an absent part, such as the condition of for (;;)
  std::string name;    // of the declaration or of its referent
  std::string type;    // with typedefs resolved: "const __global float *"
  std::string detail;  // opcode, cast kind, or the value of a constant
  std::string id;      // of the declaration or of its referent
  TextSpot location;   // spelling location, possibly in a macro
  TextSpot use;        // expansion location of the macro; otherwise equal to location
  std::vector<SyntaxNode> children;

  bool is(std::string_view what) const noexcept { return kind == what; }
  // The node without parentheses and implicit casts.
  const SyntaxNode& bare() const;
  // The name of the called function; empty if the node is not a call.
  std::string_view callee() const;
};

// The declarations of `text`, without the builtins. `json` is clang's dump of the text as file
// `path`. Errors: invalid_file if `json` is not such a dump.
SyntaxNode read_syntax_tree(const std::string& json, const std::string& text,
                            const std::string& path);

// Calls `visitor` for the node and its descendants, parents first; descends into a node only if
// `visitor` returns true.
void visit(const SyntaxNode& node, const std::function<bool(const SyntaxNode&)>& visitor);
// Whether `is_such` holds for the node or a descendant.
bool contains(const SyntaxNode& node, const std::function<bool(const SyntaxNode&)>& is_such);

bool is_kernel(const SyntaxNode& function);
// The functions with a body.
std::vector<const SyntaxNode*> functions_of(const SyntaxNode& tree);
// A function's body, or null.
const SyntaxNode* body_of(const SyntaxNode& function);

// A type without qualifiers: "float" for "const __private float".
std::string unqualified(std::string_view type);

}  // namespace clora
