// SchemaCompiler: what rules_of_schema() does. The sources schema_*_rules.cpp have the rules of
// each type. Used by one thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "model/generation/grammar/json_rules.hpp"
#include "model/generation/grammar/schema_alternatives.hpp"

namespace clora::grammar {

class SchemaCompiler {
 public:
  // REQUIRES a root that check_schema() accepts.
  SchemaCompiler(const Json& root, const GrammarLimits& limits)
      : root_(root), limits_(limits), alternatives_(root, limits) {}

  // Values of the schema in a frame.
  RuleSet compile(const SchemaFrame& frame);

 private:
  // The rule of a part of the schema, which is compiled later.
  ExpressionPtr value_of(const Json& schema, const std::string& path);
  ExpressionPtr expression_of(const Json& schema, const std::string& path);

  // Of one conjunction of keywords (SchemaAlternatives), and of its values of one type.
  ExpressionPtr conjunction(const Json& keywords, const std::string& path);
  ExpressionPtr of_type(std::string_view type, const Json& keywords, const std::string& path);
  ExpressionPtr enumeration(const Json& keywords, const std::string& path);
  ExpressionPtr string_of(const Json& keywords, const std::string& path);
  ExpressionPtr number_of(bool is_integer, const Json& keywords, const std::string& path);
  ExpressionPtr array_of(const Json& keywords, const std::string& path);
  ExpressionPtr object_of(const Json& keywords, const std::string& path);
  ExpressionPtr map_of(const Json& values, const Json& keywords, const std::string& path);
  Json all_properties(const Json& keywords, const Json& additional, const std::string& path) const;
  static void check_counts_of_properties(const Json& keywords, std::size_t required,
                                         std::size_t most, const std::string& path);

  struct Task {
    RuleId rule;
    Json schema;
    std::string path;
  };

  const Json& root_;
  const GrammarLimits limits_;
  SchemaAlternatives alternatives_;
  JsonRules rules_;
  std::map<std::string, RuleId> rules_by_text_;
  std::deque<Task> tasks_;
};

// The value of a count, or what it is if absent.
std::size_t count_of(const Json& keywords, const char* key, std::size_t otherwise);

// The keys of objects that are none of `names`, in quotes. Errors: invalid_argument if a name has
// more characters than the limit.
ExpressionPtr other_keys(std::vector<std::string> names, JsonRules& rules,
                         const GrammarLimits& limits, const std::string& path);

}  // namespace clora::grammar
