// clc replay: a captured launch runs alone with the same result, a changed kernel gives another
// one, and other commands accept the folder as a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "clora/runtime/commands/batch.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"
#include "tools/clc/call/captured_call.hpp"
#include "tools/clc/call/npy.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::ProgramResult;
using testing::HasSubstr;

// y = by x + shift + the sum of a group's x, in place if y is x. `shift` is the first element of a
// tensor, and `count`, the number of launches, is its last one.
constexpr const char* kScale =
    "// scale\n//! clc: tune GROUP={16,32}\n#include \"times.clh\"\n"
    R"(
kernel void scale(global float* y, global const float* x, global const uint* shift,
                  global uint* count, float by, int n, local float* sums, global const float* bias,
                  pair weights) {
  const int i = get_global_id(0), l = get_local_id(0);
  sums[l] = x[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
  for (int j = 0; j < GROUP; ++j) sum += sums[j];
  if (i < n) y[i] = TIMES(x[i], by) + shift[0] + sum + weights.b + (bias ? bias[i] : 0.0f);
  if (i == 0) count[0] += 1;
}
)";
constexpr const char* kTimes = R"(typedef struct { int a; float b; } pair;
#define TIMES(a, b) ((a) * (b))
)";

class ClcReplay : public testing::Test {
 protected:
  ClcReplay() {
    test::write_file(folder_ / "scale.cl", kScale);
    test::write_file(folder_ / "times.clh", kTimes);
    capture_scale();
  }

  // Captures the second of three launches, with all kinds of arguments.
  void capture_scale() {
    ContextConfig config = config_from_environment();
    config.kernel_folders = {folder_.path()};
    config.cache_folder.clear();
    config.capture = capture_request("test/scale:2", folder_.path());
    Context context(config);
    const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
    const Tensor x = test::upload(context, {4, 8}, test::random_values(32, 1));
    std::vector<std::int32_t> words(static_cast<std::size_t>(step) + 1);
    words[0] = 3;
    const Tensor shift =
        context.upload<std::int32_t>({step + 1}, DType::u32, words, MemoryTag::activations);
    const std::array<float, 2> weights{0, 0.25F};
    const auto weight_bytes = std::as_bytes(std::span(weights));
    Batch batch(context);
    batch.launch({.kernel = context.kernel("scale.cl", "scale", Defines().set("GROUP", 16)),
                  .grid = {{32, 1, 1}, {16, 1, 1}},
                  .cost = {},
                  .label = "test/scale"},
                 x, x, shift, shift.rows(step, 1), 0.3F, std::int32_t{31}, LocalMemory{64},
                 Tensor(), ValueBytes{{weight_bytes.begin(), weight_bytes.end()}});
    for (int turn = 0; turn < 3; ++turn) batch.submit().wait();
  }

  std::string launch() const { return (folder_ / "test-scale-2").string(); }
  std::string in_launch(const std::string& file) const { return launch() + "/" + file; }

  ProgramResult clc(std::vector<std::string> arguments) const { return test::run_clc(arguments); }
  ProgramResult replay(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"replay", launch()});
    return clc(more);
  }

  void change(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = test::read_file(in_launch(file));
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    test::write_file(in_launch(file), text.replace(at, from.size(), to));
  }

  test::TemporaryFolder folder_;
};

TEST_F(ClcReplay, GivesWhatTheRunGaveWithArgumentsOfAllKinds) {
  const ProgramResult result = replay();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("test/scale, launch 2 of a run on "));
  EXPECT_THAT(result.out, HasSubstr("y, x and 0-y.expected.npy are equal\n"));
  EXPECT_THAT(result.out, HasSubstr("shift, count and 2-shift.expected.npy are equal\n"));
  EXPECT_EQ(read_npy(in_launch("2-shift.npy")).text(),
            read_npy(in_launch("2-shift.expected.npy")).text());
}

TEST_F(ClcReplay, ReportsAChangedKernelAsWrongWithTheWorstElement) {
  change("kernel.cl", "count[0] += 1;", "count[0] += 1;\n  if (i == 7) y[7] += 1;");
  const ProgramResult result = replay({"--json"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  const json object = result.json_lines().at(0);
  EXPECT_FALSE(object["agrees"].get<bool>());
  EXPECT_EQ(object["compared"][0]["array"], "y");
  EXPECT_EQ(object["compared"][0]["above_tolerance"], 1);
  EXPECT_EQ(object["compared"][0]["worst"]["place"], "[0, 7]");
  EXPECT_EQ(object["compared"][1]["above_tolerance"], 0);
  EXPECT_EQ(replay({"--atol", "1.001"}).exit_code, 0);
}

TEST_F(ClcReplay, FindsAnArrayChangedThatTheRunLeftAlone) {
  change("kernel.cl", "count[0] += 1;", "count[0] += 1, ((global uint*)shift)[1] = 9;");
  const ProgramResult result = replay();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("worst at [1]: 9 instead of 0"));
}

TEST_F(ClcReplay, ReportsErrorsAtTheLinesOfTheFoldersKernel) {
  change("kernel.cl", "float sum = 0;", "float sum = 0, oops;\n  oops();");
  const std::string text = test::read_file(in_launch("kernel.cl"));
  const std::string before = text.substr(0, text.find("oops()"));
  const ProgramResult result = replay();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("kernel.cl:" + std::to_string(std::ranges::count(before, '\n') + 1)));
}

TEST_F(ClcReplay, LetsTheCommandLineWin) {
  const auto first = [](const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.json_lines().at(0)["printed"]["y"]["values"][0].get<float>();
  };
  const std::vector<std::string> run{
      "run",   launch(),           "--json", "--print", "y", "--arg", "y=const(f32,32,1)",
      "--arg", "x=const(f32,32,1)"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    return first(clc(more));
  };
  EXPECT_FLOAT_EQ(with({}), 0.3F + 3 + 16 + 0.25F);
  EXPECT_FLOAT_EQ(with({"--arg", "4=2"}), 2 + 3 + 16 + 0.25F);
  EXPECT_FLOAT_EQ(with({"--options", "-DGROUP=4", "--arg", "by=2"}), 2 + 3 + 4 + 0.25F);
  EXPECT_FLOAT_EQ(with({"--local", "32", "--arg", "sums=local(128)", "-D", "GROUP=32"}),
                  0.3F + 3 + 32 + 0.25F);
}

TEST_F(ClcReplay, IsACallForCheck) {
  const ProgramResult result = clc({"check", launch()});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  change("kernel.cl", "if (i < n) y[i]", "y[i + 4]");
  EXPECT_THAT(clc({"check", launch()}).out, HasSubstr("after array 'y' were written"));
}

TEST_F(ClcReplay, IsBuiltWithTheOptionsOfItsRunByOtherCommands) {
  const ProgramResult result = clc({"build", launch()});  // its file head has no GROUP
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST_F(ClcReplay, ReportsWhatIsWrongWithAFolder) {
  const auto expect = [&](const ProgramResult& result, int code, const std::string& words) {
    EXPECT_EQ(result.exit_code, code) << result.out;
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  expect(clc({"replay", folder_.path().string()}), 2, "this one has no call.json");
  expect(clc({"replay", (folder_ / "scale.cl").string()}), 2, "'clc run'");
  expect(clc({"run", (folder_ / "scale.cl").string()}), 2, "--global is required");
  const std::string good = test::read_file(in_launch("call.json"));
  change("call.json", "\"version\": 1", "\"version\": 2");
  expect(replay(), 1, "its version is 2, but this program reads 1");
  test::write_file(in_launch("call.json"), good.substr(0, good.size() / 2));
  expect(replay(), 1, "call.json: ");
  test::write_file(in_launch("call.json"), "{\"some\": \"thing\"}");
  expect(replay(), 1, "not a captured launch");
  test::write_file(in_launch("call.json"), std::string(50'000, '['));
  expect(replay(), 1, "call.json: line 1, column 9: arrays and objects must be nested at most 8");
  test::write_file(in_launch("call.json"), good);
  write_npy(in_launch("0-y.npy"), HostArray::of_zeros(ElementType::f32, {31}));
  expect(replay(), 1, "0-y.npy must contain f32 [4, 8] to match call.json, got f32 [31]");
  std::filesystem::remove(in_launch("0-y.npy"));
  expect(replay(), 1, "0-y.npy: no such file");
}

TEST_F(ClcReplay, RefusesByKeyWhatNoCaptureWrites) {
  const std::string good = test::read_file(in_launch("call.json"));
  const auto refuses = [&](const std::string& pointer, const json& value,
                           const std::string& words) {
    json call = json::parse(good);
    call[json::json_pointer(pointer)] = value;
    test::write_file(in_launch("call.json"), call.dump());
    const auto error = test::caught([&] { read_captured_call(launch()); });
    ASSERT_TRUE(error.has_value()) << pointer;
    EXPECT_THAT(error->message, HasSubstr("call.json: " + words));
  };
  refuses("/global", {32, -1, 1}, "global must be three sizes");
  refuses("/global", {32, 1}, "global must be three sizes");
  refuses("/local", {1.5, 1, 1}, "local must be three sizes");
  refuses("/launch", -2, "launch must be an integer of 0 or more, got -2");
  refuses("/device/name", 7, "device.name must be a string, got 7");
  refuses("/arguments", json::array_t(2000), "arguments must be a list of at most 1024");
  refuses("/arguments/0", 7, "arguments[0] must be an object, got 7");
  refuses("/arguments/0/kind", "sam", "arguments[0].kind must be array, same, local");
  refuses("/arguments/0/type", "f33", "arguments[0].type must be one of f16");
  refuses("/arguments/0/shape", {1 << 30, 1 << 30},
          "arguments[0].shape must be sizes of at least 1");
  refuses("/arguments/0/shape", {0}, "arguments[0].shape must be sizes of at least 1");
  refuses("/arguments/0/file", "../0-y.npy", "arguments[0].file must be the name of a file in");
  refuses("/arguments/1/of", -1, "arguments[1].of must be an integer of 0 or more");
  refuses("/arguments/6/bytes", -64, "arguments[6].bytes must be an integer of 0 or more");
  refuses("/arguments/8/bytes", "0g", "arguments[8].bytes must be bytes in hexadecimal");
}

TEST_F(ClcReplay, TakesSharedMemoryAndNullOnTheCommandLine) {
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", (folder_ / "plain.cl").string(), "--global", "256", "--print",
                               "y", "--arg", "x=const(f32,256,2)"});
    return clc(more);
  };
  test::write_file(folder_ / "plain.cl",
                   "kernel void add(global float* x, global float* y, global float* z) {\n"
                   "  const int i = get_global_id(0);\n"
                   "  if (!z) y[i] += x[i];\n"
                   "  else if (i < 128) y[i] += 1;\n}\n");
  const ProgramResult same = run({"--arg", "y=same(x)", "--arg", "z=null", "--print", "x[0:1]"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("x[0:1] = f32 [1]\n[4]"));
  const ProgramResult part = run({"--arg", "y=same(x,512)", "--arg", "z=same(0)", "--print", "x"});
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr("y = f32 [128]\n[3 3 3"));
  EXPECT_THAT(part.out, HasSubstr("x = f32 [256]\n[2 2 2"));
  for (const char* wrong : {"y=same(x,4)", "y=same(x,1024)", "y=same(w)", "y=same(x,a)"}) {
    const ProgramResult result = run({"--arg", wrong, "--arg", "z=null"});
    EXPECT_EQ(result.exit_code, 2) << wrong << result.err;
  }
}

TEST_F(ClcReplay, ReplaysALaunchOfAModelThatGenerates) {
  const test::TinyModel model = test::tiny_models().at(0);
  test::write_tiny_model(folder_ / "model", model.config);
  const ProgramResult run =
      test::run_clora({.arguments = {"generate", "--model", (folder_ / "model").string(),
                                     "--prompt-ids", "1,2,3,4,5", "--max-tokens", "2", "--json"},
                       .environment = {"CLORA_CAPTURE=rms_norm/forward:3", "CLORA_VARIANT=portable",
                                       "CLORA_CAPTURE_DIR=" + folder_.path().string()}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string folder = (folder_ / "rms_norm-forward-3").string();
  EXPECT_THAT(run.err, HasSubstr("run it with 'clc replay " + folder + "'"));
  const ProgramResult result = clc({"replay", folder});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("are equal"));
}

}  // namespace
}  // namespace clora
