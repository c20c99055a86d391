// Template: a chat template in the Jinja language, parsed once. Immutable; thread-safe; copies
// share the syntax tree.
//
// The language and the settings are those of jinja2 as transformers uses it
// (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, {% generation %}).
// A template has no access to files: include, import and extends are refused by name. Whatever a
// template says, parsing and rendering end in a result or an Error, within Limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "model/text/jinja/limits.hpp"
#include "model/text/jinja/value.hpp"

namespace clora::jinja {

class Template {
 public:
  // Errors: unsupported, "line N: what was expected and got".
  static Template parse(std::string_view text, const Limits& limits = {});

  // The output, with the origins of its bytes. Keys of `variables` are texts. Errors:
  // invalid_argument, "line N: ...", or the message of the template's raise_exception().
  Text render(const Dict& variables, const Limits& limits = {}) const;

 private:
  struct Tree;
  explicit Template(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const Tree> tree_;
};

}  // namespace clora::jinja
