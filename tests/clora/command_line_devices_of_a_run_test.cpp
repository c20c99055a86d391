// clora train on several devices: threads of one process, and processes that mpirun starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;

const char* const kMpirun = "/usr/bin/mpirun";

class DevicesOfARun : public test::TrainingFolder {
 protected:
  DevicesOfARun() {
    const std::string lines = records();
    test::write_file(folder_ / "data/valid.jsonl", lines.substr(0, lines.find('\n') + 1));
  }

  // Eight steps, each of four micro-batches of two records on `devices` devices.
  std::vector<std::string> run_on(int devices, const char* out,
                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"--json", "--batch-size", "2",  "--device",
                                 "cpu",    "--precision",  "f32"};
    all.insert(all.end(), {"--grad-accumulation", std::to_string(4 / devices)});
    all.insert(all.end(), more.begin(), more.end());
    return training(out, all);
  }

  // On two cores processes take turns.
  static test::ProgramCall mpi_call(int processes, const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"-n", std::to_string(processes), "--oversubscribe",
                                 test::built_program("tools/clora").string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return {.arguments = all,
            .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}};
  }

  static std::vector<double> losses(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> all;
    for (const auto& line : result.json_lines()) {
      const std::string event = line.at("event");
      if (event == "step" || event == "eval") all.push_back(line.at("loss"));
    }
    return all;
  }
  static void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
  }
};

// The process of a rank of the run that writes to this folder; 0 if there is none yet.
pid_t process_of_rank(int rank, const std::string& out) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream environment(entry.path() / "environ"), words(entry.path() / "cmdline");
    const std::string all{std::istreambuf_iterator<char>(environment), {}};
    const std::string line{std::istreambuf_iterator<char>(words), {}};
    if (all.find("OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0') == std::string::npos)
      continue;
    if (line.find(out) != std::string::npos) return std::stoi(entry.path().filename());
  }
  return 0;
}

TEST_F(DevicesOfARun, ListedOnesGiveTheLossesOfOne) {
  const ProgramResult one = run_clora(run_on(1, "one"));
  const ProgramResult two = run_clora(run_on(2, "two", {"--device", "cpu,cpu:0"}));
  expect_near(losses(two), losses(one));
  EXPECT_EQ(losses(two).size(), 9U);
  EXPECT_THAT(two.out, HasSubstr(R"("event":"devices")"));
  EXPECT_THAT(two.out, HasSubstr(R"("shares":[1,1])"));
  EXPECT_EQ(test::read_file(folder_ / "two/log.jsonl"), two.out);
}

TEST_F(DevicesOfARun, WithAPartOfTheModelEachGiveTheLossesOfOne) {
  const std::vector<std::string> split{"--split", "layers"}, threads{"--device", "cpu,cpu"};
  const ProgramResult one = run_clora(run_on(1, "one"));
  std::vector<std::string> more = threads;
  more.insert(more.end(), split.begin(), split.end());
  const ProgramResult two = run_clora(run_on(1, "two", more));
  EXPECT_EQ(losses(two), losses(one));
  EXPECT_EQ(losses(two).size(), 9U);
  EXPECT_THAT(two.out, HasSubstr(R"("blocks":[[0,1],[1,2]])"));
  EXPECT_THAT(two.out, HasSubstr(R"("idle_shares":[)"));
  const ProgramResult alone = run_clora(run_on(1, "alone", split));
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.err, HasSubstr("divides the model over several devices, got 1"));
  more.insert(more.end(), {"--eval-exact-match"});
  EXPECT_THAT(run_clora(run_on(1, "refused", more)).err,
              HasSubstr("evaluation by replies needs the model on one device"));

  const auto eval = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all{"eval",
                                 "--model",
                                 (folder_ / "model").string(),
                                 "--data",
                                 (folder_ / "data/train.jsonl").string(),
                                 "--adapter",
                                 (folder_ / "one").string(),
                                 "--json",
                                 "--precision",
                                 "f32"};
    all.insert(all.end(), options.begin(), options.end());
    const ProgramResult result = run_clora(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().back().at("loss").get<double>();
  };
  EXPECT_EQ(eval({"--device", "cpu,cpu", "--split", "layers"}), eval({"--device", "cpu"}));
}

TEST_F(DevicesOfARun, AnUnknownOneIsNamedBeforeAnythingRuns) {
  const ProgramResult result = run_clora(run_on(2, "out", {"--device", "cpu,gpu:7"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("'gpu:7'"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

// Replies, choices and a user's command at each evaluation of 40 steps.
class EvaluationsOnDevices : public DevicesOfARun {
 protected:
  EvaluationsOnDevices() {
    test::write_file(folder_ / "data/valid.jsonl", records());
    test::write_file(folder_ / "choices.jsonl",
                     R"({"prompt":"say abc:","choices":[" the"," abc"," tool"],"answer":1})"
                     "\n"
                     R"({"prompt":"say lo:","choices":[" both"," lo"],"answer":" both"})"
                     "\n"
                     R"({"prompt":"say cab:","choices":[" both"," cab"],"answer":1})"
                     "\n");
  }
  std::vector<std::string> scored_run_on(int devices, const char* out,
                                         std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--steps", "40", "--eval-every", "20", "--eval-exact-match",
                             "--eval-choices", at("choices.jsonl"), "--eval-command",
                             // A sum over the replies in their order.
                             R"(cksum | awk '{print "{\"sum\":" $1 "}"}')"});
    return run_on(devices, out, more);
  }
  static std::vector<nlohmann::json> scores(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<nlohmann::json> all;
    for (nlohmann::json line : result.json_lines()) {
      if (line.at("event") != "eval") continue;
      line.erase("loss");
      line.erase("perplexity");
      all.push_back(line);
    }
    return all;
  }
};

TEST_F(EvaluationsOnDevices, ScoreTheRepliesAndChoicesOfOneDeviceInItsOrder) {
  const std::vector<nlohmann::json> one = scores(run_clora(scored_run_on(1, "one")));
  ASSERT_EQ(one.size(), 2U);
  EXPECT_GT(one.back().at("exact_match"), 0.5);
  EXPECT_NEAR(one.back().at("accuracy"), 2.0 / 3, 1e-9);  // one answer is wrong on purpose
  EXPECT_EQ(scores(run_clora(scored_run_on(2, "two", {"--device", "cpu,cpu"}))), one);
  // More devices than questions with choices.
  EXPECT_EQ(scores(run_clora(scored_run_on(4, "four", {"--device", "cpu,cpu,cpu,cpu"}))), one);
}

class Processes : public DevicesOfARun {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kMpirun)) GTEST_SKIP() << "openmpi-bin is not installed";
  }
  ProgramResult mpirun(int processes, const std::vector<std::string>& arguments) const {
    return test::run_program(kMpirun, mpi_call(processes, arguments));
  }
};

TEST_F(Processes, GiveTheLossesOfOneDeviceAndTheBitsOfThreads) {
  const ProgramResult one = run_clora(run_on(1, "one"));
  const ProgramResult two = mpirun(2, run_on(2, "two"));
  expect_near(losses(two), losses(one));
  expect_near(losses(mpirun(4, run_on(4, "four"))), losses(one));
  ASSERT_EQ(run_clora(run_on(2, "threads", {"--device", "cpu,cpu"})).exit_code, 0);
  EXPECT_TRUE(adapter_bytes("two") == adapter_bytes("threads"));
  EXPECT_FALSE(adapter_bytes("two") == adapter_bytes("one"));
}

TEST_F(Processes, WithAPartOfTheModelEachGiveTheBitsOfOneDevice) {
  const ProgramResult one = run_clora(run_on(1, "one"));
  EXPECT_EQ(losses(mpirun(2, run_on(1, "two", {"--split", "layers"}))), losses(one));
  EXPECT_TRUE(adapter_bytes("two") == adapter_bytes("one"));
}

TEST_F(Processes, MayResumeARunOfAnotherNumber) {
  const ProgramResult two = mpirun(2, run_on(2, "run", {"--save-every", "4"}));
  const std::vector<double> all = losses(two);
  const ProgramResult one = run_clora(run_on(1, "one", {"--resume", at("run/checkpoint-4")}));
  expect_near(losses(one), {all.begin() + 4, all.end()});
  const ProgramResult four = mpirun(4, run_on(4, "four", {"--resume", at("run/checkpoint-4")}));
  expect_near(losses(four), {all.begin() + 4, all.end()});
}

TEST_F(Processes, MustBeAsManyAsTheListedDevices) {
  const ProgramResult result = mpirun(2, run_on(2, "run", {"--device", "cpu,cpu,cpu"}));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("lists 3 devices, but 2 processes"));
}

// Runs that would go on for hours, and a signal to the process of rank 1 after some checkpoints.
class SignalledProcesses : public Processes {
 protected:
  struct Ended {
    ProgramResult result;
    double seconds = 0;  // after the signal
  };
  Ended run_until(int signal) const {
    Clock::time_point when;
    std::jthread sender([&] {
      while (!std::filesystem::exists(folder_ / "run/checkpoint-4/training_state.safetensors")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      const pid_t process = process_of_rank(1, at("run"));
      when = Clock::now();
      if (process > 0) ::kill(process, signal);
    });
    const std::vector<std::string> more{"--save-every", "2", "--steps", "1000000"};
    ProgramResult result = mpirun(2, run_on(2, "run", more));
    sender.join();
    return {std::move(result), std::chrono::duration<double>(Clock::now() - when).count()};
  }

  std::int64_t last_checkpoint() const {
    std::int64_t last = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run")) {
      const std::string name = entry.path().filename();
      const bool whole = std::filesystem::exists(entry.path() / "training_state.safetensors");
      if (name.starts_with("checkpoint-") && whole) {
        last = std::max<std::int64_t>(last, std::stoll(name.substr(name.find('-') + 1)));
      }
    }
    return last;
  }
  // Two more steps from the last checkpoint.
  void expect_resumes() const {
    const std::string steps = std::to_string(last_checkpoint() + 2);
    const ProgramResult next =
        run_clora(run_on(1, "next", {"--resume", at("run"), "--steps", steps}));
    EXPECT_EQ(losses(next).size(), 3U);  // and one of the held-out records
  }

 private:
  using Clock = std::chrono::steady_clock;
};

TEST_F(SignalledProcesses, EndWithinSecondsIfOneIsKilled) {
  const auto [result, seconds] = run_until(SIGKILL);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_LT(seconds, 10);
  EXPECT_THAT(result.err, HasSubstr("the process of rank 1"));
  EXPECT_THAT(result.err, HasSubstr("resume from the last checkpoint"));
  expect_resumes();
}

TEST_F(SignalledProcesses, StopTogetherAndSaveIfOneIsInterrupted) {
  const auto [result, seconds] = run_until(SIGINT);
  EXPECT_THAT(result.out, HasSubstr(R"("stopped":true)")) << result.err;
  expect_resumes();
}

}  // namespace
}  // namespace clora
