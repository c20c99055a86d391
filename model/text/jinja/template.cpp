#include "model/text/jinja/template.hpp"

#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/parser.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {

struct Template::Tree {
  Body body;
};

Template Template::parse(std::string_view text, const Limits& limits) {
  const std::vector<Token> tokens = tokens_of(text, limits);
  TokenReader reader(tokens, limits);
  return Template(std::make_shared<const Tree>(Tree{parse_template(reader)}));
}

Text Template::render(const Dict& variables, const Limits& limits) const {
  Interpreter interpreter(variables, limits);
  try {
    return interpreter.render(tree_->body);
  } catch (const Refusal& refusal) {
    fail(ErrorCode::invalid_argument, "{}", refusal.message);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail(ErrorCode::invalid_argument, "line {}: {}", interpreter.line(), error.what());
  }
}

}  // namespace clora::jinja
