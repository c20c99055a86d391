#include "tools/clc/lint/syntax_tree.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;

// The offsets of the line beginnings.
class LineStarts {
 public:
  explicit LineStarts(const std::string& text) : starts_{0} {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  TextSpot spot(std::size_t offset) const {
    const auto next = std::ranges::upper_bound(starts_, offset);
    return {static_cast<int>(next - starts_.begin()), static_cast<int>(offset - *(next - 1)) + 1};
  }

 private:
  std::vector<std::size_t> starts_;
};

// Builds the tree while parsing, because a dump has tens of megabytes and its locations name their
// file only when it changes, in document order.
class TreeReader : public nlohmann::json_sax<Json> {
 public:
  TreeReader(const std::string& text, const std::string& path) : lines_(text), path_(path) {}

  SyntaxNode take() {
    if (root_.children.empty()) return {};
    return std::move(root_.children.front());
  }

  bool key(string_t& name) override {
    key_ = name;
    return true;
  }

  bool start_object(std::size_t) override {
    const Role role = role_of_object();
    parts_.push_back({role, key_});
    if (role == Role::node) {
      nodes_.emplace_back();
      is_placed_.push_back(false);
    } else if (role == Role::spot) {
      offset_.reset();
    }
    return true;
  }

  bool end_object() override {
    const Part part = parts_.back();
    parts_.pop_back();
    if (part.role == Role::node) {
      end_node();
    } else if (part.role == Role::spot) {
      end_spot(part.key);
    }
    return true;
  }

  bool start_array(std::size_t) override {
    parts_.push_back({Role::array, key_});
    return true;
  }
  bool end_array() override {
    parts_.pop_back();
    return true;
  }

  bool string(string_t& value) override {
    const Role role = parts_.back().role;
    if (role == Role::spot && key_ == "file") {
      is_ours_ = value == path_;
    } else if (role == Role::type) {
      if (key_ == "desugaredQualType" || nodes_.back().type.empty()) nodes_.back().type = value;
    } else if (role == Role::referred) {
      if (key_ == "id") nodes_.back().id = value;
      if (key_ == "name") nodes_.back().name = value;
    } else if (role == Role::node) {
      take_attribute(value);
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (parts_.back().role == Role::spot && key_ == "offset") offset_ = value;
    return true;
  }
  bool number_integer(number_integer_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool boolean(bool) override { return true; }
  bool null() override { return true; }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail(ErrorCode::invalid_file,
         "syntax tree: clang's dump must be JSON, but is not at byte {}; see 'clang-14 -Xclang "
         "-ast-dump=json'",
         at);
  }

 private:
  enum class Role { node, range, spot, type, referred, array, other };
  struct Part {
    Role role;
    std::string key;
  };

  Role role_of_object() const {
    if (parts_.empty()) return Role::node;
    const Part& outer = parts_.back();
    if (outer.role == Role::array) return outer.key == "inner" ? Role::node : Role::other;
    if (outer.role == Role::node) {
      if (key_ == "loc") return Role::spot;
      if (key_ == "range") return Role::range;
      if (key_ == "type") return Role::type;
      return key_ == "referencedDecl" ? Role::referred : Role::other;
    }
    if (outer.role == Role::range) return Role::spot;
    const bool is_of_macro = key_ == "spellingLoc" || key_ == "expansionLoc";
    return outer.role == Role::spot && is_of_macro ? Role::spot : Role::other;
  }

  void take_attribute(const std::string& value) {
    SyntaxNode& node = nodes_.back();
    if (key_ == "kind") {
      node.kind = value;
    } else if (key_ == "name") {
      node.name = value;
    } else if (key_ == "id") {
      node.id = value;
    } else if (key_ == "opcode" || key_ == "castKind" || key_ == "value") {
      node.detail = value;
    }
  }

  // The location of a declaration is its name ("loc"), that of any other node its beginning.
  void end_spot(const std::string& key) {
    if (!offset_ || nodes_.empty()) return;
    const TextSpot spot = is_ours_ ? lines_.spot(*offset_) : TextSpot{};
    offset_.reset();
    SyntaxNode& node = nodes_.back();
    const bool is_of_macro = key == "spellingLoc" || key == "expansionLoc";
    const std::string& field = is_of_macro ? parts_.back().key : key;
    if (field == "end" || (field == "begin" && is_placed_.back())) return;
    if (key != "expansionLoc") node.location = spot;
    if (key != "spellingLoc") {
      node.use = spot;
      is_placed_.back() = true;
      if (node.location.line == 0) node.location = spot;  // created by ## or in a header
    }
  }

  void end_node() {
    SyntaxNode node = std::move(nodes_.back());
    nodes_.pop_back();
    is_placed_.pop_back();
    const bool is_outermost = nodes_.size() == 1;
    if (is_outermost && node.use.line == 0) return;  // a builtin
    (nodes_.empty() ? root_ : nodes_.back()).children.push_back(std::move(node));
  }

  LineStarts lines_;
  const std::string& path_;
  SyntaxNode root_;
  std::vector<Part> parts_;
  std::vector<SyntaxNode> nodes_;  // the open nodes
  std::vector<bool> is_placed_;    // for each open node
  std::string key_;
  std::optional<std::size_t> offset_;
  bool is_ours_ = false;
};

}  // namespace

const SyntaxNode& SyntaxNode::bare() const {
  const SyntaxNode* node = this;
  while ((node->is("ParenExpr") || node->is("ImplicitCastExpr") || node->is("ConstantExpr")) &&
         !node->children.empty()) {
    node = &node->children.front();
  }
  return *node;
}

std::string_view SyntaxNode::callee() const {
  if (!is("CallExpr") || children.empty()) return {};
  return children.front().bare().name;
}

SyntaxNode read_syntax_tree(const std::string& json, const std::string& text,
                            const std::string& path) {
  TreeReader reader(text, path);
  Json::sax_parse(json, &reader);
  return reader.take();
}

void visit(const SyntaxNode& node, const std::function<bool(const SyntaxNode&)>& visitor) {
  if (!visitor(node)) return;
  for (const SyntaxNode& child : node.children) visit(child, visitor);
}

bool contains(const SyntaxNode& node, const std::function<bool(const SyntaxNode&)>& is_such) {
  return is_such(node) || std::ranges::any_of(node.children, [&](const SyntaxNode& child) {
           return contains(child, is_such);
         });
}

bool is_kernel(const SyntaxNode& function) {
  return function.is("FunctionDecl") &&
         std::ranges::any_of(function.children,
                             [](const SyntaxNode& each) { return each.is("OpenCLKernelAttr"); });
}

std::vector<const SyntaxNode*> functions_of(const SyntaxNode& tree) {
  std::vector<const SyntaxNode*> functions;
  for (const SyntaxNode& each : tree.children) {
    if (each.is("FunctionDecl") && body_of(each) != nullptr) functions.push_back(&each);
  }
  return functions;
}

const SyntaxNode* body_of(const SyntaxNode& function) {
  for (const SyntaxNode& each : function.children) {
    if (each.is("CompoundStmt")) return &each;
  }
  return nullptr;
}

std::string unqualified(std::string_view type) {
  constexpr std::array<std::string_view, 7> qualifiers{
      "const", "volatile", "restrict", "__private", "__global", "__local", "__constant"};
  std::string kept;
  while (!type.empty()) {
    const std::size_t end = std::min(type.find(' '), type.size());
    const std::string_view word = type.substr(0, end);
    if (!word.empty() && std::ranges::find(qualifiers, word) == qualifiers.end()) {
      kept += (kept.empty() ? "" : " ") + std::string(word);
    }
    type.remove_prefix(std::min(end + 1, type.size()));
  }
  return kept;
}

}  // namespace clora
