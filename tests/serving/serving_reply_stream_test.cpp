#include "clora/serving/reply_stream.hpp"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

namespace clora {
namespace {

using namespace std::chrono_literals;
using Push = std::function<bool(std::string)>;

TEST(ReplyStream, SendsEveryPieceInOrder) {
  std::string sent;
  EXPECT_TRUE(run({.generate =
                       [](const Push& push) {
                         for (char c = 'a'; c <= 'z'; ++c) EXPECT_TRUE(push(std::string(1, c)));
                       },
                   .send =
                       [&](const std::string& piece) {
                         sent += piece;
                         return true;
                       },
                   .wanted = [] { return true; }}));
  EXPECT_EQ(sent, "abcdefghijklmnopqrstuvwxyz");
}

// The sender takes its first piece only after everything has been generated.
TEST(ReplyStream, AClientThatDoesNotReadDoesNotKeepTheGenerator) {
  std::promise<void> generated;
  std::size_t sent = 0;
  EXPECT_TRUE(run({.generate =
                       [&](const Push& push) {
                         for (int i = 0; i < 1000; ++i) EXPECT_TRUE(push("piece"));
                         generated.set_value();
                       },
                   .send =
                       [&](const std::string& piece) {
                         if (sent == 0) generated.get_future().wait();
                         sent += piece.size();
                         return true;
                       },
                   .wanted = [] { return true; }}));
  EXPECT_EQ(sent, 5000U);
}

TEST(ReplyStream, AReplyOfWhichTooMuchWaitsEnds) {
  std::promise<void> refused;
  int pushed = 0;
  EXPECT_FALSE(run({.generate =
                        [&](const Push& push) {
                          while (push("0123456789")) ++pushed;
                          EXPECT_FALSE(push("more"));
                          refused.set_value();
                        },
                    .send =
                        [&](const std::string&) {
                          refused.get_future().wait();
                          return true;
                        },
                    .wanted = [] { return true; },
                    .max_waiting_bytes = 100}));
  EXPECT_GE(pushed, 10);
  EXPECT_LE(pushed, 11) << "one piece is being sent, the others wait";
}

TEST(ReplyStream, AClientThatLeavesEndsTheGenerator) {
  int sends = 0;
  EXPECT_FALSE(run({.generate =
                        [](const Push& push) {
                          while (push("x")) std::this_thread::yield();
                        },
                    .send = [&](const std::string&) { return ++sends < 3; },
                    .wanted = [] { return true; }}));
  EXPECT_EQ(sends, 3);
}

TEST(ReplyStream, AClientThatLeavesBeforeTheFirstPieceEndsTheGeneratorToo) {
  EXPECT_FALSE(run({.generate =
                        [](const Push& push) {
                          while (push("")) std::this_thread::yield();
                        },
                    .send = [](const std::string&) { return true; },
                    .wanted = [] { return false; }}));
}

TEST(ReplyStream, AnErrorOfTheGeneratorComesAfterThePiecesBeforeIt) {
  std::string sent;
  const ReplyStream stream{.generate =
                               [](const Push& push) {
                                 push("a");
                                 push("b");
                                 throw std::runtime_error("the device failed");
                               },
                           .send =
                               [&](const std::string& piece) {
                                 sent += piece;
                                 return true;
                               },
                           .wanted = [] { return true; }};
  EXPECT_THROW(run(stream), std::runtime_error);
  EXPECT_EQ(sent, "ab");
}

TEST(ReplyStream, AnErrorOfTheSenderEndsTheGenerator) {
  const ReplyStream stream{.generate =
                               [](const Push& push) {
                                 while (push("x")) std::this_thread::yield();
                               },
                           .send = [](const std::string&) -> bool { throw std::bad_alloc(); },
                           .wanted = [] { return true; }};
  EXPECT_THROW(run(stream), std::bad_alloc);
}

TEST(ReplyQueue, GivesAnEmptyPieceWhileNothingIsThereAndNothingAtTheEnd) {
  ReplyQueue queue(10);
  EXPECT_EQ(queue.pop(1ms), "");
  EXPECT_TRUE(queue.push("a"));
  queue.finish();
  EXPECT_EQ(queue.pop(1ms), "a");
  EXPECT_EQ(queue.pop(1ms), std::nullopt);
}

}  // namespace
}  // namespace clora
