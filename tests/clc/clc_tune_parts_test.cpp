// The parts of clc tune: the space, the search order, the record of results, and expressions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/test_files.hpp"
#include "tools/clc/call/call_options.hpp"
#include "tools/clc/kernel_file/expression.hpp"
#include "tools/clc/kernel_file/option_words.hpp"
#include "tools/clc/tune/cost_search.hpp"
#include "tools/clc/tune/tune_record.hpp"
#include "tools/clc/tune/tune_search.hpp"
#include "tools/clc/tune/tune_space.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TuneCandidates candidates_of(const std::string& lines, const std::string& kernel = "",
                             const Variables& variables = {}) {
  return tune_candidates(read_file_head(lines, "k.cl"), kernel, variables, "k.cl");
}

constexpr const char* kTiles =
    "//! clc: tune TILE={16,32,64} WG={8,16,32} where TILE % WG == 0 && TILE / WG <= LIMIT\n";

TEST(ClcExpression, EvaluatesGridsAndConditions) {
  const Variables sizes{{"M", 100}, {"TILE", 32}};
  EXPECT_EQ(value_of("ceil(M/TILE)*TILE", sizes, "grid"), 128);
  EXPECT_EQ(value_of("M % TILE == 4 && TILE <= 64 ? 1 : 0", sizes, "grid"), 1);
  EXPECT_EQ(value_of("ceil(96/TILE)", sizes, "grid"), 3);
  EXPECT_THAT(split_expressions("max(M,1),2"), ElementsAre("max(M,1)", "2"));
}

TEST(ClcExpression, NamesTheUnknownName) {
  const Variables sizes{{"M", 100}, {"TILE", 32}};
  EXPECT_THAT(message_of([&] { value_of("N*2", sizes, "--global"); }),
              HasSubstr("--global 'N*2': 'N' is not a known name; the names are M, TILE"));
  EXPECT_THAT(message_of([&] { value_of("(M", sizes, "--global"); }), HasSubstr("arenthesis"));
  EXPECT_THAT(message_of([&] { value_of("", sizes, "--bytes"); }), HasSubstr("--bytes ''"));
  EXPECT_THAT(message_of([&] { value_of(std::string(100000, '('), sizes, "--bytes"); }),
              HasSubstr("--bytes"));
}

TEST(ClcExpression, GivesGridsFromOptionsAndArguments) {
  const std::vector<CallArgument> arguments{parse_argument("n=1000"),
                                            parse_argument("x=zeros(f32,4)")};
  const Variables variables = call_variables("-D WG=64 -DITEMS=2 -D T=float", arguments);
  EXPECT_THAT(variables, ElementsAre(Pair("ITEMS", 2), Pair("WG", 64), Pair("n", 1000)));
  EXPECT_THAT(parse_grid_size("ceil(n/(WG*ITEMS))*WG,2", variables, "grid"),
              ElementsAre(512, 2, 1));
  EXPECT_THAT(message_of([&] { parse_grid_size("n/3", variables, "--global"); }),
              HasSubstr("must be positive whole numbers"));
  EXPECT_THAT(message_of([&] { parse_grid_size("1,1,1,1", variables, "--global"); }),
              HasSubstr("three dimensions"));
}

TEST(ClcTuneSpace, OmitsWhatTheConditionExcludes) {
  const TuneCandidates found = candidates_of(kTiles, "", {{"LIMIT", 2}});
  EXPECT_THAT(found.parameters, ElementsAre("TILE", "WG"));
  EXPECT_THAT(found.all, ElementsAre(ElementsAre(16, 8), ElementsAre(16, 16), ElementsAre(32, 16),
                                     ElementsAre(32, 32), ElementsAre(64, 32)));
  EXPECT_EQ(found.find({{"TILE", 32}, {"WG", 16}}), 2U);
  EXPECT_EQ(found.find({{"TILE", 32}}), found.all.size());
}

TEST(ClcTuneSpace, HasNeighboursOneStepApart) {
  const TuneCandidates found = candidates_of(kTiles, "", {{"LIMIT", 9}});
  const std::size_t middle = found.find({{"TILE", 32}, {"WG", 16}});
  std::vector<NamedNumbers> near;
  for (const std::size_t each : found.neighbours(middle)) near.push_back(found.values(each));
  EXPECT_THAT(near, UnorderedElementsAre(NamedNumbers{{"TILE", 16}, {"WG", 16}},
                                         NamedNumbers{{"TILE", 64}, {"WG", 16}},
                                         NamedNumbers{{"TILE", 32}, {"WG", 8}},
                                         NamedNumbers{{"TILE", 32}, {"WG", 32}}));
}

TEST(ClcTuneSpace, IsThatOfItsKernel) {
  const std::string lines = "//! clc: tune of a A={1,2}\n//! clc: tune of b B={3}\n";
  EXPECT_THAT(candidates_of(lines, "b").parameters, ElementsAre("B"));
  EXPECT_THAT(message_of([&] { candidates_of(lines, "c"); }), HasSubstr("nothing to tune for c"));
}

TEST(ClcTuneSpace, RefusesInvalidSpaces) {
  EXPECT_THAT(message_of([] { candidates_of("// k\n"); }), HasSubstr("declares nothing to tune"));
  EXPECT_THAT(message_of([] { candidates_of("//! clc: tune T={float,half}\n"); }),
              HasSubstr("whole numbers, got 'float'"));
  EXPECT_THAT(message_of([] { candidates_of("//! clc: tune A={1} where A > 1\n"); }),
              HasSubstr("no choice satisfies"));
  EXPECT_THAT(message_of([] { candidates_of("//! clc: tune A={1} where A > B\n"); }),
              HasSubstr("'B' is not a known name"));
}

TEST(ClcTuneSpace, TakesItsValuesOutOfOptionsAndPutsOthersIn) {
  const std::string options = "-D T=float -D WG=64 -DTILE=32 -cl-mad-enable";
  const std::vector<std::string> names{"WG", "TILE", "OTHER"};
  EXPECT_EQ(options_without(options, names), "-DT=float -cl-mad-enable");
  EXPECT_THAT(values_in(options, names), ElementsAre(Pair("TILE", 32), Pair("WG", 64)));
  EXPECT_EQ(options_with("-DT=float", {{"WG", 8}}), "-DT=float -D WG=8");
}

// The time of each candidate: a valley with its minimum at (64, 8).
double seconds_of(const std::vector<std::int64_t>& values) {
  return 1.0 / static_cast<double>(values[0]) + static_cast<double>(values[1]) / 1000;
}

std::vector<std::size_t> order_of(SearchKind kind, const TuneCandidates& candidates,
                                  std::size_t most, std::uint64_t seed) {
  const auto search = make_search(kind, candidates, 1, most, seed);
  std::vector<std::size_t> order;
  while (const auto next = search->next()) {
    order.push_back(*next);
    search->add_result(*next, seconds_of(candidates.all[*next]));
  }
  return order;
}

TEST(ClcTuneSearch, TriesEachCandidateOnce) {
  const TuneCandidates found = candidates_of(kTiles, "", {{"LIMIT", 9}});
  for (const SearchKind kind :
       {SearchKind::exhaustive, SearchKind::random, SearchKind::annealing}) {
    const auto order = order_of(kind, found, 100, 3);
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), found.all.size());
    EXPECT_EQ(order.size(), found.all.size());
    EXPECT_EQ(order, order_of(kind, found, 100, 3)) << "the same order for a seed";
    EXPECT_THAT(order_of(kind, found, 4, 3), SizeIs(4));
  }
  EXPECT_NE(order_of(SearchKind::random, found, 100, 3),
            order_of(SearchKind::random, found, 100, 4));
}

TEST(ClcTuneSearch, WalksFromTheStartToNeighbours) {
  const TuneCandidates found = candidates_of(kTiles, "", {{"LIMIT", 9}});
  const auto order = order_of(SearchKind::annealing, found, 3, 7);
  ASSERT_EQ(order.front(), 1U);
  EXPECT_THAT(found.neighbours(1), testing::Contains(order[1]));
}

TEST(ClcTuneSearch, ContinuesAfterCandidatesThatFail) {
  const TuneCandidates found = candidates_of(kTiles, "", {{"LIMIT", 9}});
  const auto search = make_search(SearchKind::annealing, found, 0, 100, 1);
  std::size_t tried = 0;
  while (const auto next = search->next()) {
    search->add_result(*next, std::nullopt);
    ++tried;
  }
  EXPECT_EQ(tried, found.all.size());
}

// Plans that split K are twice as fast, and follow from a slice that costs less than 400.
CostOutcome outcome_of(const NamedCosts& costs) {
  const bool splits = costs.at("slice") < 400;
  return {splits ? "split" : "whole", splits ? 1e-3 : 2e-3};
}

TEST(ClcCostSearch, FindsTheCostsOfTheFasterPlans) {
  const CostSearchResult found = search_costs({{"launch", 3}, {"slice", 1000}}, outcome_of);
  EXPECT_LT(found.best.at("slice"), 400);
  EXPECT_EQ(found.best.at("launch"), 3);
  EXPECT_EQ(found.first.seconds, 2e-3);
  EXPECT_EQ(found.last.seconds, 1e-3);
  EXPECT_THAT(found.without_effect, testing::ElementsAre("launch"));
}

TEST(ClcCostSearch, KeepsCostsThatNoChangeImproves) {
  const NamedCosts start{{"launch", 0}, {"slice", 100}};
  const CostSearchResult found = search_costs(start, outcome_of);
  EXPECT_EQ(found.best, start);
  EXPECT_THAT(found.without_effect, testing::ElementsAre("launch")) << "a larger slice is slower";
}

TEST(ClcTuneRecord, ResumesWhereARunEnded) {
  const test::TemporaryFolder folder;
  const NamedNumbers a{{"WG", 1}}, b{{"WG", 2}}, c{{"WG", 3}};
  {
    TuneRecord record(folder / "record.json", "a kernel");
    record.put(a, {.end = TrialEnd::timed, .why = {}, .seconds = 0.5});
    record.put(b, {.end = TrialEnd::wrong, .why = "y differs", .seconds = 0});
    record.put(c, {});  // the process dies at this point
  }
  const TuneRecord reopened(folder / "record.json", "a kernel");
  EXPECT_EQ(reopened.resumed(), 3U);
  EXPECT_EQ(reopened.find(a)->seconds, 0.5);
  EXPECT_EQ(reopened.find(b)->why, "y differs");
  EXPECT_EQ(reopened.find(c)->end, TrialEnd::refused);
  EXPECT_THAT(reopened.find(c)->why, HasSubstr("crashed an earlier run"));
}

TEST(ClcTuneRecord, IgnoresADamagedFileAndThatOfAnotherKernel) {
  const test::TemporaryFolder folder;
  TuneRecord(folder / "record.json", "a kernel")
      .put({{"WG", 1}}, {.end = TrialEnd::slow, .why = {}, .seconds = 1});
  EXPECT_EQ(TuneRecord(folder / "record.json", "another kernel").resumed(), 0U);
  test::write_file(folder / "record.json", "{\"subject\": \"a kernel\", ");
  EXPECT_EQ(TuneRecord(folder / "record.json", "a kernel").resumed(), 0U);
}

}  // namespace
}  // namespace clora
