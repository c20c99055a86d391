// The syntax tree of a kernel file as clang sees it, from `clang -ast-dump=json`: every node with
// its kind, type and location. Clang's names are kept: "IfStmt", "DeclRefExpr".
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// A location in the text that clang has read, from 1; line 0: none in it.
struct TextSpot {
  int line = 0, column = 0;
  bool operator==(const TextSpot&) const = default;
};

struct SyntaxNode {
  std::string kind;    // empty: an absent part, such as the condition of for (;;)
  std::string name;    // of what is declared or referred to
  std::string type;    // typedefs resolved: "const __global float *"
  std::string detail;  // opcode, kind of cast, or a constant's value
  std::string id;      // of what is declared or referred to
  TextSpot location;   // where it is written, be it in a macro
  TextSpot use;        // where the macro that it comes from is used; else as location
  std::vector<SyntaxNode> children;

  bool is(std::string_view what) const noexcept { return kind == what; }
  // The node itself, without parentheses and implicit casts.
  const SyntaxNode& bare() const;
  // Of a call, the name of the function; of others nothing.
  std::string_view callee() const;
};

// What `text` declares, without the builtins; `json` is clang's dump of it as file `path`.
// Errors: invalid_file, for what is not such a dump.
SyntaxNode read_syntax_tree(const std::string& json, const std::string& text,
                            const std::string& path);

// Calls `see` for the node and all below it, parents first; where it returns false, what is below
// that node is left out.
void visit(const SyntaxNode& node, const std::function<bool(const SyntaxNode&)>& see);
// Whether the node or one below it is such.
bool contains(const SyntaxNode& node, const std::function<bool(const SyntaxNode&)>& is_such);

bool is_kernel(const SyntaxNode& function);
// The functions with a body.
std::vector<const SyntaxNode*> functions_of(const SyntaxNode& tree);
// A function's body, or null.
const SyntaxNode* body_of(const SyntaxNode& function);

// "float" of "const __private float": a type without qualifiers.
std::string unqualified(std::string_view type);

}  // namespace clora
