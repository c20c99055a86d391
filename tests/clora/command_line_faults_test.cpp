// Commands that fail: earlier files remain, and the message names a remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/files/disk_space.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using test::ProgramCall;
using test::ProgramResult;
using test::run_clora;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class CommandLineFaults : public testing::Test {
 protected:
  CommandLineFaults() {
    test::write_tiny_chat_model(folder / "model");
    std::string lines;
    for (const char* word : {"abc", "lo", "the", "cab"}) {
      lines += nlohmann::json{{"prompt", "say:"}, {"completion", word}}.dump() + "\n";
    }
    test::write_file(folder / "data.jsonl", lines);
  }

  std::string at(const std::string& name) const { return (folder / name).string(); }

  ProgramResult train(std::vector<std::string> more) const {
    std::vector<std::string> all{"train", "--model", at("model"), "--data", at("data.jsonl")};
    if (std::ranges::find(more, "--adapter-out") == more.end()) {
      all.insert(all.end(), {"--adapter-out", at("a")});
    }
    if (std::ranges::find(more, "--steps") == more.end()) all.insert(all.end(), {"--steps", "4"});
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all);
  }

  std::map<std::string, std::string> files_of(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / name)) {
      if (entry.is_regular_file()) {
        files[std::filesystem::relative(entry.path(), folder / name)] =
            test::read_file(entry.path());
      }
    }
    return files;
  }

  // Writes the float at `index` of the tensor data in a safetensors file.
  void write_float(const std::string& file, std::size_t index, float value) const {
    std::string bytes = test::read_file(folder / file);
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    std::memcpy(bytes.data() + 8 + header + 4 * index, &value, sizeof value);
    test::write_file(folder / file, bytes);
  }

  test::TemporaryFolder folder;
};

TEST_F(CommandLineFaults, OverwriteKeepsTheEarlierRunIfTheNewOneIsInvalid) {
  ASSERT_EQ(train({"--save-every", "2"}).exit_code, 0);
  const auto before = files_of("a");
  ASSERT_TRUE(before.contains("checkpoint-2/training_state.safetensors"));
  test::write_file(folder / "bad.jsonl", "{\"prompt\": 3}\n");
  std::filesystem::copy(folder / "model", folder / "broken");
  test::write_file(folder / "broken/model.safetensors", "no model");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--data", at("bad.jsonl")},
        {"--data", at("none.jsonl")},
        {"--model", at("broken")},
        {"--adapter-init", at("model")},
        {"--target-modules", "no_such_layer"},
        {"--resume", at("none")},
        {"--eval-every", "1"},
        {"--lr", "10", "--weight-decay", "100", "--steps", "50"}}) {
    std::vector<std::string> all{"--overwrite"};
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = train(all);
    EXPECT_EQ(result.exit_code, 1) << more[0] << more[1] << result.err;
    EXPECT_TRUE(files_of("a") == before) << more[0] << more[1];
  }
}

TEST_F(CommandLineFaults, OverwriteReplacesTheEntireRunAndKeepsFilesOfOthers) {
  ASSERT_EQ(train({"--save-every", "1"}).exit_code, 0);
  test::write_file(folder / "a/notes.txt", "mine");
  ASSERT_EQ(train({"--overwrite", "--steps", "1"}).exit_code, 0);
  const auto after = files_of("a");
  EXPECT_EQ(after.at("notes.txt"), "mine");
  EXPECT_FALSE(after.contains("checkpoint-1/training_state.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a/earlier-run"));
  EXPECT_THAT(after.at("log.jsonl"), Not(HasSubstr("\"step\":4")));
}

TEST_F(CommandLineFaults, AResumeThatIsRefusedLeavesLogAndConfigurationAsTheyAre) {
  ASSERT_EQ(train({"--save-every", "2"}).exit_code, 0);
  const auto before = files_of("a");
  const ProgramResult result = train({"--resume", at("a/checkpoint-2"), "--lr", "0.5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(files_of("a") == before);
}

TEST_F(CommandLineFaults, ASecondTrainingInTheFolderIsRefusedAndTheFirstContinues) {
  std::vector<std::string> call{"train",         "--model", at("model"), "--data", at("data.jsonl"),
                                "--adapter-out", at("a"),   "--steps",   "100000", "--json"};
  test::RunningProgram first(test::built_program("tools/clora"), {.arguments = call});
  std::string line;
  while (line.find("\"step\":1,") == std::string::npos) {
    line = first.read_line();
    ASSERT_FALSE(line.empty());
  }
  const ProgramResult second = train({"--overwrite"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("is in use by another training run (process "),
                                HasSubstr("choose another --adapter-out")));
  EXPECT_NE(first.read_line(), "");
  EXPECT_EQ(first.end_by(SIGHUP), 1);  // closing the terminal saves the adapter, as Ctrl-C does
  EXPECT_TRUE(std::filesystem::exists(folder / "a/adapter_model.safetensors"));
  EXPECT_THAT(test::read_file(folder / "a/log.jsonl"), HasSubstr("\"stopped\":true"));
}

TEST_F(CommandLineFaults, AnAdapterThatIsGivenKeepsItsRankAndTheRest) {
  ASSERT_EQ(train({"--rank", "2", "--alpha", "6", "--target-modules", "q_proj"}).exit_code, 0);
  const auto from_it = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"--adapter-init", at("a"), "--adapter-out", at("b"),
                                 "--overwrite"};
    all.insert(all.end(), more.begin(), more.end());
    return train(all);
  };
  for (const auto& [option, value, own] :
       {std::tuple{"--rank", "4", " has 2, which is kept; omit --rank"},
        {"--alpha", "8", " has 6, which is kept"},
        {"--dropout", "0.5", " has 0, which is kept"},
        {"--target-modules", "q_proj,v_proj", "must name the layers of the adapter"},
        {"--layers", "1", "must name the layers of the adapter"}}) {
    const ProgramResult refused = from_it({option, value});
    EXPECT_EQ(refused.exit_code, 1) << option;
    EXPECT_THAT(refused.err, AllOf(HasSubstr(option), HasSubstr(own)));
  }
  EXPECT_EQ(from_it({}).exit_code, 0);
  EXPECT_EQ(from_it({"--rank", "2", "--alpha", "6", "--target-modules", "q_proj"}).exit_code, 0);
  // The configuration that the run writes has no rank, so the run can be repeated with it.
  EXPECT_THAT(test::read_file(folder / "b/run.toml"),
              AllOf(Not(HasSubstr("\nrank =")), HasSubstr("adapter-init")));
  EXPECT_EQ(run_clora({"train", "--config", at("b/run.toml"), "--adapter-out", at("c")}).exit_code,
            0);
}

TEST_F(CommandLineFaults, ATooLongChatMessageIsDroppedAndTheConversationContinues) {
  const auto chat = [&](const std::string& input) {
    return run_clora(ProgramCall{.arguments = {"chat", "--model", at("model"), "--max-tokens", "3",
                                               "--json", "--context", "64"},
                                 .input = input});
  };
  const auto plain = chat("ab\n").json_lines();
  ASSERT_THAT(plain, SizeIs(1));
  const ProgramResult result = chat(std::string(5000, 'q') + "\nab\n");
  EXPECT_EQ(result.exit_code, 1);  // one message got no reply
  const auto lines = result.json_lines();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0].at("error").get<std::string>(), HasSubstr("but only 63 fit"));
  EXPECT_EQ(lines[1].at("ids"), plain[0].at("ids"));  // as if the long message had not been sent
  EXPECT_THAT(result.err, HasSubstr("the message was dropped"));
}

TEST_F(CommandLineFaults, AChatMessageOfAnyBytesDoesNotEndTheProgram) {
  const ProgramResult result = run_clora(
      ProgramCall{.arguments = {"chat", "--model", at("model"), "--max-tokens", "2", "--json"},
                  .input = "\xff\xfe\x80\n" + std::string("a\0b", 3) + "\n\x1b[31m\nab\n"});
  EXPECT_THAT(result.json_lines(), SizeIs(4)) << result.err;
}

TEST_F(CommandLineFaults, AFailedFuseDoesNotChangeOut) {
  ASSERT_EQ(train({}).exit_code, 0);
  const auto fuse = [&](const std::string& model, const std::string& adapter) {
    return run_clora({"fuse", "--model", at(model), "--adapter", at(adapter), "--out", at("fused"),
                      "--overwrite"});
  };
  ASSERT_EQ(fuse("model", "a").exit_code, 0);
  test::write_file(folder / "fused/notes.txt", "mine");
  const auto before = files_of("fused");
  std::filesystem::copy(folder / "model", folder / "nan");
  write_float("nan/model.safetensors", 5, std::numeric_limits<float>::quiet_NaN());
  const ProgramResult not_finite = fuse("nan", "a");
  EXPECT_EQ(not_finite.exit_code, 1);
  EXPECT_THAT(not_finite.err, HasSubstr("error"));
  EXPECT_TRUE(files_of("fused") == before);
  const ProgramResult limited = test::run_program(
      "/bin/bash",
      {.arguments = {"-c", "ulimit -f 4; exec \"$@\"", "bash",
                     test::built_program("tools/clora").string(), "fuse", "--model", at("model"),
                     "--adapter", at("a"), "--out", at("fused"), "--overwrite"}});
  EXPECT_EQ(limited.exit_code, 1) << limited.err;  // an error, not the signal's 153
  EXPECT_TRUE(files_of("fused") == before);
  // No partial files remain.
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("partial")));
  }
  ASSERT_EQ(fuse("model", "a").exit_code, 0);
  EXPECT_EQ(files_of("fused").at("notes.txt"), "mine");
}

TEST_F(CommandLineFaults, FuseRefusesAnOutThatItReadsOrThatHoldsOtherWeights) {
  ASSERT_EQ(train({}).exit_code, 0);
  std::filesystem::create_directory(folder / "other");
  test::write_file(folder / "other/model-00001-of-00002.safetensors", "x");
  for (const std::string out : {"model", "a", "other", "other/"}) {
    const ProgramResult result = run_clora(
        {"fuse", "--model", at("model"), "--adapter", at("a"), "--out", at(out), "--overwrite"});
    EXPECT_EQ(result.exit_code, 1) << out;
    EXPECT_THAT(result.err, HasSubstr("choose another")) << out;
  }
}

TEST(DiskSpace, IsRequiredBeforeAFileIsBegun) {
  const test::TemporaryFolder folder;
  require_free_space(folder / "not/there/yet", 1, "fuse");
  CLORA_EXPECT_ERROR(require_free_space(folder / "x", std::uintmax_t{1} << 62U, "fuse"),
                     ErrorCode::io, "needs 4398046511105 MiB, but its file system has ");
}

TEST_F(CommandLineFaults, AHubIdIsAnsweredWithHowToGetItsFiles) {
  for (const auto& [call, words] :
       {std::pair{std::vector<std::string>{"info", "Qwen/Qwen2.5-0.5B"},
                  "'hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B'"},
        {{"generate", "--prompt", "x", "--model", "org/name"}, "--model must be a file or folder"},
        {{"eval", "--model", "m", "--adapter", "org/name", "--data", "d"}, "--adapter must be"},
        {{"eval", "--model", "m", "--data", "org/set"},
         "'hf download org/set --repo-type dataset --local-dir set'"},
        {{"train", "--model", "m", "--data", "d", "--adapter-out", "o", "--adapter-init", "a/b"},
         "--adapter-init must be"}}) {
    const ProgramResult result = run_clora(call);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(words));
  }
}

}  // namespace
}  // namespace clora
