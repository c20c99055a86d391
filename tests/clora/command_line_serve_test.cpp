// clora serve: mistakes that are found before it serves. tests/server runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/serve/serve_options.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_usage_error(std::vector<std::string> options, const char* part) {
  options.insert(options.begin(), {"serve", "--model", "/no/model"});
  const ProgramResult result = run_clora(options);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr(part));
}

TEST(CommandLineServe, RefusesOptionsThatItCannotFollow) {
  expect_usage_error({"--adapter", "sql"}, "--adapter must be NAME=PATH, got 'sql'");
  expect_usage_error({"--adapter", "=dir"}, "NAME=PATH");
  expect_usage_error({"--allow-adapter-loading"}, "needs --adapters-dir");
  expect_usage_error({"--port", "65536"}, "0 to 65535");
  expect_usage_error({"--max-sequences", "0"}, "--max-sequences");
  expect_usage_error({"--kv-cache-type", "int3"}, "--kv-cache-type");
  expect_usage_error({"--metrics-prefix", "other"}, "--metrics-prefix");
  expect_usage_error({"--drain-timeout", "0"}, "--drain-timeout");
  expect_usage_error({"--max-body", "many"}, "--max-body");
  expect_usage_error({"--api-key", ""}, "--api-key must not be empty");
}

TEST(CommandLineServe, ReportsAModelThatIsMissing) {
  const ProgramResult result = run_clora({"serve", "--model", "/no/model", "--port", "0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("/no/model"));
}

TEST(CommandLineServe, ReportsAnAddressThatIsNotOfThisMachine) {
  const ProgramResult result =
      run_clora({"serve", "--model", "/no/model", "--port", "0", "--host", "203.0.113.1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot listen on port 0 of 203.0.113.1"));
}

TEST(CommandLineServe, ReadsKeysFromTheirFile) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "keys", "one\r\n\ntwo\n");
  ServeOptions options;
  options.api_keys = {"zero"};
  options.api_key_file = folder / "keys";
  EXPECT_THAT(api_keys_of(options), ElementsAre("zero", "one", "two"));
  test::write_file(folder / "keys", "\n");
  EXPECT_THROW(api_keys_of(options), Error);
}

}  // namespace
}  // namespace clora
