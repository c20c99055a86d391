// What the tests of tests/server/*.py need besides clora itself:
//   server_fixture files FOLDER    writes a tiny chat model and two adapters of it: model, first,
//   second server_fixture script [KEY]    serves the API with a scripted engine until its input
//   ends; prints
//                                  the URL. The text of a reply is that of "say(TEXT)end" in
//                                  the request; one with "endless" has a reply without an end
#include <cstdio>
#include <iostream>

#include "tests/support/served_model.hpp"
#include "tests/support/served_script.hpp"
#include "tools/clora/serve/api_server.hpp"

namespace clora {
namespace {

// A text that a request contains as say(TEXT), or the default.
std::string wanted_text(const std::string& prompt) {
  const std::size_t begin = prompt.rfind("say(");
  const std::size_t end = prompt.find(")end", begin);
  if (begin == std::string::npos || end == std::string::npos) return "hello world";
  return prompt.substr(begin + 4, end - begin - 4);
}

std::string script(const Tokenizer& tokenizer, const GenerationRequest& request) {
  const std::string prompt = tokenizer.decode(request.prompt, {.keep_special = true});
  if (prompt.find("endless") != std::string::npos) return std::string(1'000'000, 'x');
  std::string text = request.adapters.empty() ? "" : request.adapters[0].name + ": ";
  return text + wanted_text(prompt);
}

int serve_script(const std::vector<std::string>& keys) {
  test::ServedScript served;
  served.backend.script = [&](const GenerationRequest& r) { return script(served.tokenizer, r); };
  served.backend.step_ms = 1;
  ApiServer server({.access = {.api_keys = keys}});
  server.open({.completions = &served.service,
               .engine = &served.engine,
               .models = &served.models,
               .metrics = &served.metrics});
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  while (std::cin.get() != EOF) continue;
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "files") {
    test::write_served_files(arguments[1]);
    return 0;
  }
  if (!arguments.empty() && arguments[0] == "script") {
    return serve_script({arguments.begin() + 1, arguments.end()});
  }
  std::fputs("usage: server_fixture files FOLDER | script [KEY]\n", stderr);
  return 2;
}

}  // namespace
}  // namespace clora

int main(int argc, char** argv) { return clora::run({argv + 1, argv + argc}); }
