// A capture writes one launch of a run to a folder: the right launch, with its inputs before and
// its outputs after it. Nothing else in the run changes.
#include "runtime/commands/capture.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "clora/ops/rowwise/softmax.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kElements = 64;

class CaptureTest : public testing::Test {
 protected:
  ContextConfig config_for(const std::string& capture) {
    ContextConfig config = config_from_environment();
    config.cache_folder.clear();
    config.capture = capture_request(capture, folder_.path());
    config.hooks.log = [this](LogLevel level, std::string_view message) {
      messages_ += fmt::format("{}: {}\n", name_of(level), message);
    };
    return config;
  }

  json call(const std::string& name) const {
    return json::parse(test::read_file(folder_ / name / "call.json"));
  }

  // The elements of a file, after its 128-byte header.
  std::vector<float> values(const std::string& name, const std::string& file) const {
    const std::string bytes = test::read_file(folder_ / name / file);
    EXPECT_EQ(bytes.substr(1, 5), "NUMPY");
    std::vector<float> result((bytes.size() - 128) / sizeof(float));
    std::memcpy(result.data(), bytes.data() + 128, result.size() * sizeof(float));
    return result;
  }

  test::TemporaryFolder folder_;
  std::string messages_;
};

// Values of the parameters of lora_linear.cl, of which its lora_gradient_sum depends on none.
Defines any_lora_gradient() {
  return Defines()
      .set("ITEMS", 1)
      .set("VEC_SIZE", 1)
      .set("RANKS", 1)
      .set("STEPS", 8)
      .set("X_TYPE", "f32")
      .set("S_TYPE", "f32");
}

// out += term, over `elements` elements.
Launch adding(Context& context) {
  return {.kernel = context.kernel("lora_linear.cl", "lora_gradient_sum", any_lora_gradient()),
          .grid = {{kElements, 1, 1}, {kElements, 1, 1}},
          .cost = {},
          .label = "test/add"};
}
void add(Batch& batch, const Tensor& out, const Tensor& term) {
  const auto elements = static_cast<std::uint32_t>(term.elements());
  batch.launch(adding(batch.context()), out, term, std::uint32_t{1}, elements, std::uint32_t{1},
               1.0F);
}

Tensor filled(Context& context, float value) {
  return test::upload(context, {kElements}, std::vector<float>(kElements, value));
}

TEST_F(CaptureTest, CapturesTheRequestedLaunchOverReplaysOfABatch) {
  Context context(config_for("test/add:3"));
  const Tensor sum = filled(context, 0), one = filled(context, 1), ten = filled(context, 10);
  Batch batch(context);
  add(batch, sum, one);
  add(batch, sum, ten);
  for (int turn = 0; turn < 3; ++turn) batch.submit().wait();

  const json arguments = call("test-add-3")["arguments"];
  EXPECT_EQ(arguments[0]["name"], "out");
  EXPECT_EQ(arguments[0]["shape"], json({kElements}));
  EXPECT_EQ(values("test-add-3", "0-out.npy"), std::vector<float>(kElements, 11));
  EXPECT_EQ(values("test-add-3", "0-out.expected.npy"), std::vector<float>(kElements, 12));
  EXPECT_EQ(values("test-add-3", "1-parts.npy"), std::vector<float>(kElements, 1));
  EXPECT_FALSE(arguments[1].contains("expected"));  // the launch only reads it
  EXPECT_THAT(messages_, HasSubstr("info: capture: launch 3 of test/add is saved in "));
  EXPECT_EQ(context.read<float>(sum), std::vector<float>(kElements, 33));
  EXPECT_EQ(context.capture(), nullptr);  // capturing has ended
}

TEST_F(CaptureTest, KeepsTheGridTheOptionsAndTheValues) {
  Context context(config_for("lora_gradient_sum"));  // selected by the kernel's name
  Batch batch(context);
  const Tensor sum = filled(context, 0);
  batch.launch(adding(context), sum, Tensor(), std::uint32_t{1}, std::uint32_t{7}, std::uint32_t{0},
               0.1F);
  batch.submit().wait();
  const json captured = call("lora_gradient_sum-1");
  EXPECT_EQ(captured["file"], "lora_linear.cl");
  EXPECT_EQ(captured["kernel"], "lora_gradient_sum");
  EXPECT_EQ(
      captured["options"],
      "-cl-std=CL1.2 -D ITEMS=1 -D VEC_SIZE=1 -D RANKS=1 -D STEPS=8 -D X_TYPE=f32 -D S_TYPE=f32");
  EXPECT_EQ(captured["global"], json({kElements, 1, 1}));
  EXPECT_EQ(captured["local"], json({kElements, 1, 1}));
  EXPECT_EQ(captured["arguments"][1]["kind"], "null");
  EXPECT_EQ(captured["arguments"][3]["value"], 7);
  EXPECT_EQ(captured["arguments"][5]["value"].get<float>(), 0.1F);
}

TEST_F(CaptureTest, WritesOneKernelFileThatBeginsWithItsHead) {
  Context context(config_for("test/add"));
  Batch batch(context);
  add(batch, filled(context, 0), filled(context, 1));
  batch.submit().wait();
  const std::string text = test::read_file(folder_ / "test-add-1" / "kernel.cl");
  EXPECT_TRUE(text.starts_with("// lora_")) << text.substr(0, 80);
  EXPECT_THAT(text, HasSubstr("/* line 1 \"bf16_values.clh\" */"));
  EXPECT_THAT(text, Not(HasSubstr("#include \"")));
  EXPECT_THAT(text, Not(HasSubstr("#line")));
}

TEST_F(CaptureTest, RecordsWhichArgumentsShareMemory) {
  Context context(config_for("softmax/forward:2"));
  const std::vector<float> logits = test::random_values(kElements, 1);
  const Tensor x = test::upload(context, {4, 16}, logits);
  Batch batch(context);
  record_softmax(batch, x, x);
  batch.submit().wait();
  const std::vector<float> once = context.read<float>(x);
  batch.submit().wait();
  const json arguments = call("softmax-forward-2")["arguments"];
  EXPECT_EQ(arguments[0]["kind"], "array");
  EXPECT_EQ(arguments[1]["kind"], "same");
  EXPECT_EQ(arguments[1]["of"], 0);
  EXPECT_EQ(arguments[1]["offset_bytes"], 0);
  const std::string stem = "0-" + arguments[0]["name"].get<std::string>();
  EXPECT_EQ(values("softmax-forward-2", stem + ".npy"), once);
  EXPECT_EQ(values("softmax-forward-2", stem + ".expected.npy"), context.read<float>(x));
}

TEST_F(CaptureTest, KeepsAllOfTheMemoryIfViewsOverlapInPart) {
  Context context(config_for("test/add"));
  const auto in_floats = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
  const std::vector<float> content = test::random_values(std::size_t(3 * in_floats), 2);
  const Tensor all = test::upload(context, {3 * in_floats}, content);
  const Tensor out = all.rows(in_floats, 2 * in_floats), term = all.rows(0, 2 * in_floats);
  Batch batch(context);
  Launch launch = adding(context);
  launch.grid = single_item_groups(1);
  batch.launch(launch, out, term, std::uint32_t{1}, std::uint32_t{1}, std::uint32_t{1}, 1.0F);
  batch.submit().wait();
  const json arguments = call("test-add-1")["arguments"];
  EXPECT_EQ(arguments[1]["kind"], "array");  // begins first in the buffer
  EXPECT_EQ(arguments[1]["type"], "u8");
  EXPECT_EQ(arguments[1]["shape"], json({12 * in_floats}));
  EXPECT_EQ(arguments[0]["of"], 1);
  EXPECT_EQ(arguments[0]["offset_bytes"], 4 * in_floats);
  EXPECT_EQ(values("test-add-1", "1-parts.npy"), content);
  EXPECT_EQ(values("test-add-1", "1-parts.expected.npy"), context.read<float>(all));
}

TEST_F(CaptureTest, DoesNotCountLaunchesOfSelfTests) {
  ContextConfig config = config_for("softmax/forward");
  config.self_test = true;
  Context context(config);
  const Tensor x = test::upload(context, {2, 8}, test::random_values(16, 1));
  Batch batch(context);
  record_softmax(batch, x, x);
  batch.submit().wait();
  EXPECT_EQ(call("softmax-forward-1")["arguments"][0]["shape"], json({2, 8}));
}

TEST_F(CaptureTest, WarnsAtTheEndOfAnOpThatNeverCameAndNamesThoseThatDid) {
  {
    Context context(config_for("test/ad:2"));
    Batch batch(context);
    add(batch, filled(context, 0), filled(context, 1));
    batch.submit().wait();
    batch.submit().wait();
    EXPECT_EQ(messages_, "");
  }
  EXPECT_THAT(messages_, HasSubstr("warning: capture: launch 2 of test/ad was not reached"));
  EXPECT_THAT(messages_, HasSubstr("test/add (2)"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(CaptureTest, RefusesAKernelThatReachesTensorsByAddresses) {
  Context context(config_for("test/add"));
  const Tensor sum = filled(context, 0);
  Launch launch = adding(context);
  launch.uses = {filled(context, 5)};
  Batch batch(context);
  batch.launch(launch, sum, filled(context, 1), std::uint32_t{1}, kElements, std::uint32_t{1},
               1.0F);
  batch.submit().wait();
  EXPECT_THAT(messages_, HasSubstr("warning: capture: launch 1 of test/add cannot be captured: its "
                                   "kernel lora_gradient_sum reads tensor addresses"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_EQ(context.read<float>(sum), std::vector<float>(kElements, 1));
}

TEST_F(CaptureTest, ContinuesWithTheRunIfTheFolderCannotBeWritten) {
  test::write_file(folder_ / "file", "");
  ContextConfig config = config_for("test/add");
  config.capture->folder = folder_ / "file" / "launch";
  Context context(config);
  const Tensor sum = filled(context, 0);
  Batch batch(context);
  add(batch, sum, filled(context, 1));
  batch.submit().wait();
  EXPECT_THAT(messages_, HasSubstr("warning: capture: launch 1 of test/add cannot be written"));
  EXPECT_EQ(context.read<float>(sum), std::vector<float>(kElements, 1));
}

TEST_F(CaptureTest, TakesThePlaceOfAnEarlierCaptureAndOfNothingElse) {
  const auto run = [&](float value) {
    Context context(config_for("test/add"));
    Batch batch(context);
    add(batch, filled(context, value), filled(context, 1));
    batch.submit().wait();
  };
  run(1);
  run(2);
  EXPECT_EQ(values("test-add-1", "0-out.npy").at(0), 2);
  std::filesystem::remove(folder_ / "test-add-1" / "call.json");
  run(3);
  EXPECT_THAT(messages_, HasSubstr("already exists without"));
  EXPECT_EQ(values("test-add-1", "0-out.npy").at(0), 2);
  const auto entries = std::distance(std::filesystem::directory_iterator(folder_.path()), {});
  EXPECT_EQ(entries, 1);  // no temporary folder remains
}

TEST_F(CaptureTest, HasTheSourceOfAProgramThatWasRebuiltForAnotherFunction) {
  ContextConfig config = config_for("none");
  config.cache_folder = folder_.path();
  const auto kernel = [](Context& context, const char* function) {
    return context.kernel("lora_linear.cl", function, any_lora_gradient());
  };
  {
    Context context(config);
    Batch batch(context);
    add(batch, filled(context, 0), filled(context, 1));
    batch.submit().wait();
  }
  Context context(config);
  const Kernel loaded = kernel(context, "lora_gradient_sum");
  const Kernel built = kernel(context, "lora_gradient_parts");
  for (const Kernel& each : {loaded, built}) {
    const auto source = context.programs().source_of(each);
    ASSERT_TRUE(source.has_value()) << each.function;
    EXPECT_EQ(source->file, "lora_linear.cl");
  }
  Context other(config_for("none"));
  EXPECT_FALSE(other.programs().source_of(loaded).has_value());
}

TEST(CaptureRequest, ReadsTheOpTheLaunchAndTheFolder) {
  const CaptureRequest third = capture_request("rms_norm/forward:3", "launches");
  EXPECT_EQ(third.op, "rms_norm/forward");
  EXPECT_EQ(third.launch, 3U);
  EXPECT_EQ(third.folder, "launches/rms_norm-forward-3");
  const CaptureRequest first = capture_request("attention/add parts", "");
  EXPECT_EQ(first.launch, 1U);
  EXPECT_EQ(first.folder, "clora-capture-attention-add-parts-1");
  for (const char* wrong : {":3", "a:", "a:0", "a:-1", "a:3x", "a:b"}) {
    EXPECT_THAT(test::error_of([&] { capture_request(wrong, ""); }), HasSubstr(wrong));
  }
}

TEST(CaptureRequest, ComesFromTheEnvironmentOrIsNone) {
  EXPECT_FALSE(config_from_environment().capture.has_value());
  EXPECT_EQ(Context(config_from_environment()).capture(), nullptr);
  ::setenv("CLORA_CAPTURE", "gemm/forward:2", 1);
  ::setenv("CLORA_CAPTURE_DIR", "/launches", 1);
  const auto request = config_from_environment().capture;
  ::unsetenv("CLORA_CAPTURE");
  ::unsetenv("CLORA_CAPTURE_DIR");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->folder, "/launches/gemm-forward-2");
  EXPECT_EQ(request->launch, 2U);
}

}  // namespace
}  // namespace clora
