// The page of clora bench is well-formed and self-contained, and holds every row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/bench_results_by_hand.hpp"
#include "tests/support/html_checks.hpp"
#include "tools/clora/bench/bench_charts.hpp"
#include "tools/clora/bench/bench_page.hpp"
#include "tools/clora/bench/bench_verdict.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::expect_well_formed;
using test::file_of;
using test::many_rows;
using test::parsed;
using test::repetition;
using test::run_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string page_of(const json& old_file, const json& new_file) {
  const BenchResults results = parsed(new_file);
  const auto comparisons = compare(parsed(old_file), results);
  const std::vector<std::string> notes{"it was <slower> & hotter"};
  return bench_page({results, comparisons, notes});
}

TEST(BenchPage, IsWellFormedAndFetchesNothing) {
  const std::string page = page_of(run_of("a/fused/f32/1", {100, 102, 98, 101, 99}), many_rows());
  expect_well_formed(page);
  test::expect_self_contained(page);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(BenchPage, ReadsInLightAndDark) {
  EXPECT_THAT(
      page_of(file_of({}), many_rows()),
      AllOf(HasSubstr("@media (prefers-color-scheme: dark)"), HasSubstr("content=\"light dark\"")));
}

TEST(BenchPage, ShowsEveryRowTheVerdictsAndTheMachine) {
  const std::string page = page_of(run_of("a/fused/f32/1", {100, 102, 98, 101, 99}), many_rows());
  for (const char* text :
       {"a &lt;fast&gt; &amp; small device", "200 GFLOP/s", "commit 0123456789ab",
        "<td>a/fused/f32/1</td>", "<td>a/unfused/f32/1</td>", "<td>launch/replay</td>",
        "1 &lt; 2 &amp; &quot;so&quot; on", "1 faster, 0 slower", "9.8 % faster",
        "it was &lt;slower&gt; &amp; hotter", "2.00 × the fused time"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(BenchPage, OfNothingIsStillAPage) { expect_well_formed(page_of(file_of({}), file_of({}))); }

TEST(BenchCharts, DrawSharesIfAllAreKnownAndTimesOtherwise) {
  const auto chart = [](const std::vector<json>& entries) {
    return rows_chart(parsed(file_of(entries)).rows);
  };
  EXPECT_THAT(chart({repetition("a/fused/f32/1", 5, 50), repetition("a/fused/f32/2", 5, 80)}),
              HasSubstr(">100 %<"));
  const std::string times = chart({repetition("a/fused/f32/1", 5, 50), repetition("a/x", 40)});
  EXPECT_THAT(times, AllOf(HasSubstr(">40.0 us<"), Not(HasSubstr(">100 %<"))));
  // The longest time has the full width of 320, the other one an eighth of it.
  EXPECT_THAT(times, AllOf(HasSubstr("width=\"320.0\""), HasSubstr("width=\"40.0\"")));
}

}  // namespace
}  // namespace clora
