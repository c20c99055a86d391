// SchemaAlternatives: reads a schema as a choice of conjunctions, so that rules can be made of
// each: anyOf and oneOf are multiplied out, and allOf and $ref are merged with the keywords beside
// them. Used by one thread.
//
// oneOf is read as anyOf: a value that matches several of its schemas is not excluded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/generation/grammar/limits.hpp"
#include "model/generation/grammar/schema_keywords.hpp"

namespace clora::grammar {

class SchemaAlternatives {
 public:
  // REQUIRES a root that check_schema() accepts; it must outlive this.
  explicit SchemaAlternatives(const Json& root, const GrammarLimits& limits = {})
      : root_(root), limits_(limits) {}

  // A value matches the schema iff it matches one of these. Each is an object without annotations,
  // const, anyOf, oneOf and allOf; with $ref only if that is all it has. None: no value matches.
  // Errors: those of refuse_schema(), with the path.
  std::vector<Json> of(const Json& schema, const std::string& path);

 private:
  using List = std::vector<Json>;

  Json own_keywords(const Json& schema);
  List of_any(const Json& schemas, const std::string& path);
  List product(const List& left, const List& right, const std::string& path);
  List without_reference(const Json& alternative, const std::string& path);
  void check_count(std::size_t count, const std::string& path) const;
  void spend(const Json& copied, const std::string& path);

  const Json& root_;
  const GrammarLimits limits_;
  std::size_t depth_ = 0, copied_ = 0;
};

// The conjunction of two of these objects; nothing if no value matches both. Errors: unsupported
// for keywords whose conjunction is none of the keywords.
std::optional<Json> merged(const Json& left, const Json& right, const std::string& path);

}  // namespace clora::grammar
