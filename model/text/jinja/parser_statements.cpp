// The statements of parser.hpp.
#include <algorithm>
#include <array>

#include "model/text/jinja/parser.hpp"

namespace clora::jinja {
namespace {

using Kind = Statement::Kind;
using StatementPtr = std::unique_ptr<const Statement>;

class StatementParser {
 public:
  explicit StatementParser(TokenReader& reader) : reader_(reader) {}

  // Reads statements up to a block tag with one of these names, whose name is not taken.
  Body read_body(std::initializer_list<std::string_view> ends) {
    const TokenReader::Level level(reader_);
    Body body;
    for (;;) {
      if (reader_.at(Token::Kind::end)) {
        if (ends.size() == 0) return body;
        reader_.bad("the template ends, but '{}' is expected", *std::prev(ends.end()));
      }
      if (reader_.at(Token::Kind::block_begin)) {
        reader_.take();
        if (at_one_of(ends)) return body;
        body.push_back(read_block());
        reader_.expect(Token::Kind::block_end, "'%}'");
      } else {
        body.push_back(reader_.at(Token::Kind::data) ? read_data() : read_print());
      }
    }
  }

 private:
  bool at_one_of(std::initializer_list<std::string_view> names) const {
    return std::ranges::any_of(names, [&](auto name) { return reader_.at_name(name); });
  }

  Statement statement(Kind kind) const { return {.kind = kind, .line = reader_.line()}; }

  static StatementPtr made(Statement statement) {
    return std::make_unique<const Statement>(std::move(statement));
  }

  StatementPtr read_data() {
    Statement node = statement(Kind::data);
    node.text = reader_.take().value;
    return made(std::move(node));
  }

  StatementPtr read_print() {
    reader_.expect(Token::Kind::variable_begin, "text or a tag");
    Statement node = statement(Kind::print);
    node.expression = parse_tuple(reader_, true);
    reader_.expect(Token::Kind::variable_end, "'}}'");
    return made(std::move(node));
  }

  StatementPtr read_block() {
    const std::string name = reader_.expect(Token::Kind::name, "the name of a block").value;
    if (name == "if") return read_if();
    if (name == "for") return read_for();
    if (name == "set") return read_set();
    if (name == "macro") return read_macro();
    if (name == "call") return read_call();
    if (name == "filter") return read_filter();
    if (name == "with") return read_with();
    if (name == "generation") return read_generation();
    if (name == "break" || name == "continue") return read_jump(name == "break");
    refuse(name);
  }

  [[noreturn]] void refuse(const std::string& name) const {
    constexpr std::array<std::string_view, 6> kOthers = {"include", "import", "from",
                                                         "extends", "block",  "autoescape"};
    if (std::ranges::find(kOthers, name) != kOthers.end())
      reader_.bad("'{}' is not supported in a chat template, which is one text", name);
    reader_.bad("unknown block '{}'", name);
  }

  // A body and its end tag, whose last %} the caller expects.
  Body read_body_and_end(std::string_view end) {
    reader_.expect(Token::Kind::block_end, "'%}'");
    Body body = read_body({end});
    reader_.expect_name(end);
    return body;
  }

  StatementPtr read_if() {
    Statement node = statement(Kind::condition);
    bool more = true;
    ExpressionPtr condition = parse_tuple(reader_, false);
    while (more) {
      more = condition != nullptr;
      reader_.expect(Token::Kind::block_end, "'%}'");
      Body body = more ? read_body({"elif", "else", "endif"}) : read_body({"endif"});
      node.branches.push_back({std::move(condition), std::move(body)});
      condition = nullptr;
      if (reader_.skip_name("elif")) {
        condition = parse_tuple(reader_, false);
      } else if (!reader_.skip_name("else")) {
        break;
      }
    }
    reader_.expect_name("endif");
    return made(std::move(node));
  }

  StatementPtr read_for() {
    Statement node = statement(Kind::loop);
    node.target = read_targets(false, "in");
    reader_.expect_name("in");
    node.expression = parse_tuple(reader_, false, "recursive");
    if (reader_.skip_name("if")) node.condition = parse_expression(reader_);
    node.recursive = reader_.skip_name("recursive");
    reader_.expect(Token::Kind::block_end, "'%}'");
    ++loops_;
    node.body = read_body({"else", "endfor"});
    --loops_;
    if (reader_.skip_name("else")) {
      reader_.expect(Token::Kind::block_end, "'%}'");
      node.otherwise = read_body({"endfor"});
    }
    reader_.expect_name("endfor");
    return made(std::move(node));
  }

  StatementPtr read_jump(bool is_break) {
    if (loops_ == 0) reader_.bad("'{}' outside of a loop", is_break ? "break" : "continue");
    return made(statement(is_break ? Kind::break_loop : Kind::continue_loop));
  }

  AssignmentTarget read_target(bool with_attribute) {
    if (reader_.skip_symbol("(")) {
      const TokenReader::Level level(reader_);
      AssignmentTarget target = read_targets(with_attribute, {});
      reader_.expect_symbol(")");
      return target;
    }
    AssignmentTarget target;
    target.name = reader_.expect(Token::Kind::name, "the name of a variable").value;
    check_name(target.name);
    if (with_attribute && reader_.skip_symbol("."))
      target.attribute = reader_.expect(Token::Kind::name, "the name of an attribute").value;
    return target;
  }

  AssignmentTarget read_targets(bool with_attribute, std::string_view stop) {
    AssignmentTarget first = read_target(with_attribute);
    if (!reader_.at_symbol(",")) return first;
    AssignmentTarget all;
    all.parts.push_back(std::move(first));
    while (reader_.skip_symbol(",")) {
      if (!reader_.at_symbol("(") && !reader_.at(Token::Kind::name)) break;
      if (!stop.empty() && reader_.at_name(stop)) break;
      all.parts.push_back(read_target(with_attribute));
    }
    return all;
  }

  void check_name(const std::string& name) const {
    constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                            "True", "False", "None"};
    if (std::ranges::find(kConstants, name) != kConstants.end())
      reader_.bad("'{}' is a constant and cannot be assigned", name);
  }

  StatementPtr read_set() {
    Statement node = statement(Kind::assignment);
    node.target = read_targets(true, {});
    if (reader_.skip_symbol("=")) {
      node.expression = parse_tuple(reader_, true);
      return made(std::move(node));
    }
    node.kind = Kind::capture;
    if (reader_.skip_symbol("|")) node.expression = parse_filters(reader_, filtered());
    node.body = read_without_loops("endset");
    return made(std::move(node));
  }

  // break and continue do not leave the body.
  Body read_without_loops(std::string_view end) {
    const std::size_t outside = std::exchange(loops_, 0);
    Body body = read_body_and_end(end);
    loops_ = outside;
    return body;
  }

  ExpressionPtr filtered() const {
    Expression node{.kind = Expression::Kind::name, .line = reader_.line()};
    node.name = kFiltered;
    return std::make_unique<const Expression>(std::move(node));
  }

  std::vector<Parameter> read_parameters() {
    reader_.expect_symbol("(");
    std::vector<Parameter> parameters;
    while (!reader_.skip_symbol(")")) {
      if (!parameters.empty()) reader_.expect_symbol(",");
      if (reader_.skip_symbol(")")) break;
      Parameter parameter{reader_.expect(Token::Kind::name, "a parameter").value, nullptr};
      check_name(parameter.name);
      if (reader_.skip_symbol("=")) {
        parameter.otherwise = parse_expression(reader_);
      } else if (!parameters.empty() && parameters.back().otherwise != nullptr) {
        reader_.bad("the parameter '{}' without a default follows one with a default",
                    parameter.name);
      }
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

  StatementPtr read_macro() {
    Statement node = statement(Kind::macro);
    node.text = reader_.expect(Token::Kind::name, "the name of a macro").value;
    check_name(node.text);
    const std::size_t begin = reader_.position();
    node.parameters = read_parameters();
    node.body = read_without_loops("endmacro");
    node.uses_varargs = reader_.mentions(begin, "varargs");
    node.uses_kwargs = reader_.mentions(begin, "kwargs");
    return made(std::move(node));
  }

  StatementPtr read_call() {
    Statement node = statement(Kind::call);
    if (reader_.at_symbol("(")) node.parameters = read_parameters();
    node.expression = parse_call_target(reader_);
    node.body = read_without_loops("endcall");
    return made(std::move(node));
  }

  StatementPtr read_filter() {
    Statement node = statement(Kind::filter);
    node.expression = parse_filters(reader_, filtered());
    node.body = read_without_loops("endfilter");
    return made(std::move(node));
  }

  StatementPtr read_with() {
    Statement node = statement(Kind::scope);
    while (!reader_.at(Token::Kind::block_end)) {
      if (!node.assignments.empty()) reader_.expect_symbol(",");
      AssignmentTarget target = read_target(false);
      reader_.expect_symbol("=");
      node.assignments.emplace_back(std::move(target), parse_expression(reader_));
    }
    node.body = read_body_and_end("endwith");
    return made(std::move(node));
  }

  StatementPtr read_generation() {
    Statement node = statement(Kind::generation);
    node.body = read_without_loops("endgeneration");
    return made(std::move(node));
  }

  TokenReader& reader_;
  std::size_t loops_ = 0;  // around the current statement
};

}  // namespace

Body parse_template(TokenReader& reader) { return StatementParser(reader).read_body({}); }

}  // namespace clora::jinja
