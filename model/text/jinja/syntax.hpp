// The syntax tree of a template: expressions and statements. Immutable once parsed; the interpreter
// reads it. Each node knows its line in the template, for errors.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/value.hpp"

namespace clora::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct ArgumentSyntax {
  enum class Kind { positional, named, list, dict };  // list: *value; dict: **value
  Kind kind = Kind::positional;
  std::string name = {};
  ExpressionPtr value;
};

enum class ComparisonOperator {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

struct Expression {
  enum class Kind {
    constant,       // value
    name,           // name
    list,           // operands
    tuple,          // operands
    dict,           // operands: key, value, key, value, ...
    negative,       // -operands[0]
    positive,       // +operands[0]
    negation,       // not operands[0]
    arithmetic,     // operands[0] op operands[1]
    concatenation,  // operands joined by ~
    comparison,     // operands[0] comparisons[0] operands[1] comparisons[1] ...
    conjunction,    // operands joined by and
    disjunction,    // operands joined by or
    conditional,    // operands[0] if operands[1] else operands[2], which may be null
    attribute,      // operands[0].name
    item,           // operands[0][operands[1]]
    slice,          // operands[0][operands[1]:operands[2]:operands[3]]; null: not given
    call,           // operands[0](arguments)
    filter,         // operands[0] | name(arguments)
    test,           // operands[0] is name(arguments)
  };
  Kind kind;
  std::size_t line;
  std::size_t depth = 1;  // of the tree below, with this node
  std::string name = {};
  Value constant = {};
  Operator op = Operator::add;
  std::vector<ComparisonOperator> comparisons = {};
  std::vector<ExpressionPtr> operands = {};
  std::vector<ArgumentSyntax> arguments = {};
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

// What an assignment writes to: a name, an attribute of a namespace, or several of these.
struct AssignmentTarget {
  std::string name;
  std::string attribute = {};                // of the namespace `name`
  std::vector<AssignmentTarget> parts = {};  // if not empty: a, b = ...
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // the default; null: none
};

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

struct Statement {
  enum class Kind {
    data,        // text
    print,       // expression
    condition,   // branches
    loop,        // for target in expression if condition, recursive; body; otherwise
    assignment,  // target = expression
    capture,     // target = body, through the filters of expression
    macro,       // name(parameters) body
    call,        // expression(...) with the body as caller(parameters)
    filter,      // body through the filters of expression
    scope,       // with targets = expressions: body
    generation,  // body, which the model generates
    break_loop,
    continue_loop,
  };
  Kind kind;
  std::size_t line;
  std::string text = {};  // data, or the name of a macro
  ExpressionPtr expression = {};
  ExpressionPtr condition = {};
  AssignmentTarget target = {};
  bool recursive = false;
  bool uses_varargs = false, uses_kwargs = false;  // a macro that takes further arguments
  Body body = {};
  Body otherwise = {};
  std::vector<Branch> branches = {};
  std::vector<Parameter> parameters = {};
  std::vector<std::pair<AssignmentTarget, ExpressionPtr>> assignments = {};
};

// The name that the body of a filter block or of a capture has in the chain of its filters.
constexpr const char* kFiltered = " filtered";

}  // namespace clora::jinja
