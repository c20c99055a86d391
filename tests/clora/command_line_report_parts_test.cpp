// The parts of a training's report: series of a log, charts and pages, the view on a terminal,
// event files of TensorBoard, and the comparison of runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "lora/adapter_norms.hpp"
#include "runtime/fail.hpp"
#include "tests/support/html_checks.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/report/event_file.hpp"
#include "tools/clora/report/run_charts.hpp"
#include "tools/clora/report/run_comparison.hpp"
#include "tools/clora/report/run_page.hpp"
#include "tools/clora/report/training_view.hpp"
#include "tools/clora/training/reply_samples.hpp"

namespace clora {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

using Json = nlohmann::ordered_json;

Json step_event(std::int64_t step, double loss) {
  return {{"event", "step"},
          {"step", step},
          {"loss", loss},
          {"tokens", 100},
          {"learning_rate", 0.002},
          {"grad_norm", 0.5},
          {"tokens_per_s", 900.0},
          {"peak_bytes", std::int64_t{3} << 29},
          {"in_use_bytes", 1 << 30},
          {"seconds", 0.5 * static_cast<double>(step)}};
}

// A log with every kind of event: 50 steps, evaluations after 25 and 50, names that need escapes.
std::vector<Json> full_log() {
  std::vector<Json> events{{{"event", "start"},
                            {"device", "a <fast> & small device"},
                            {"model", "model \"x\".gguf"},
                            {"trainable_parameters", 12345},
                            {"records", 80},
                            {"valid_records", 8},
                            {"steps", 50},
                            {"resumed_step", 0},
                            {"data", {{{"data", "a&b.jsonl"}, {"records", 80}}}}}};
  for (int step = 1; step <= 50; ++step) {
    events.push_back(step_event(step, 3.0 - 0.03 * step));
    events.back()["rewards/chosen"] = 0.1 * step;
    events.back()["rewards/rejected"] = -0.1 * step;
    if (step % 25 != 0) continue;
    events.push_back({{"event", "eval"},
                      {"step", step},
                      {"loss", 2.5 - 0.01 * step},
                      {"tokens", 10},
                      {"exact_match", 0.25}});
    events.push_back(
        {{"event", "norms"},
         {"step", step},
         {"norms", {{"0.q_proj", 3.0}, {"0.v_proj", 4.0}, {"1.q_proj", 4.0}, {"lm_head", 1.0}}}});
    events.push_back({{"event", "samples"},
                      {"step", step},
                      {"samples",
                       {{{"prompt", "1 < 2 & \"so\" on?"},
                         {"wanted", "yes"},
                         {"base", "<b>no</b>"},
                         {"adapter", "reply at " + std::to_string(step)}}}}});
  }
  events.push_back({{"event", "done"}, {"steps", 50}, {"seconds", 26.0}, {"stopped", false}});
  return events;
}

RunRecord record_of(const std::vector<Json>& events) {
  RunRecord record;
  for (const Json& event : events) record.add(event);
  return record;
}

LoggedRun full_run() {
  return {"out/<run>", record_of(full_log()), {{"lr", "0.002"}, {"data", "a&b.jsonl"}}, 0};
}

TEST(RunRecord, MakesASeriesOfEveryNumberOfAnEventThatHasAStep) {
  const RunRecord record =
      record_of({{{"event", "step"},
                  {"step", 1},
                  {"loss", 2},
                  {"new", 7},
                  {"words", "x"},
                  {"none", nullptr},
                  {"list", {1, 2}}},
                 {{"event", "step"}, {"step", 2}, {"loss", NAN}, {"new", 8}},
                 {{"event", "scores"}, {"step", 2}, {"rewards", {{"margin", 0.5}, {"name", "x"}}}},
                 {{"event", "other"}, {"new", 9}}});
  EXPECT_THAT(record.series(), SizeIs(3));
  EXPECT_THAT(record.points("step", "loss"), ElementsAre(SeriesPoint{1, 2}));
  EXPECT_THAT(record.points("step", "new"), ElementsAre(SeriesPoint{1, 7}, SeriesPoint{2, 8}));
  EXPECT_THAT(record.points("scores", "rewards", "margin"), ElementsAre(SeriesPoint{2, 0.5}));
  EXPECT_EQ(record.end(), RunEnd::cut);
}

TEST(RunRecord, AddsTheTimesOfTheProcessesOfAResumedRun) {
  RunRecord record = record_of({{{"event", "start"}, {"steps", 9}, {"resumed_step", 0}},
                                step_event(1, 2),
                                step_event(4, 2)});
  EXPECT_DOUBLE_EQ(record.seconds().value(), 2.0);
  record.add({{"event", "start"}, {"steps", 9}, {"resumed_step", 4}});
  EXPECT_EQ(record.seconds(), std::nullopt);
  record.add(step_event(6, 2));
  EXPECT_DOUBLE_EQ(record.seconds().value(), 5.0);
  record.add({{"event", "done"}, {"seconds", 4.0}, {"stopped", true}});
  EXPECT_DOUBLE_EQ(record.seconds().value(), 6.0);
  EXPECT_EQ(record.end(), RunEnd::stopped);
  EXPECT_THAT(record.resumed(), ElementsAre(4));
}

TEST(RunRecord, DoesNotGuessATimeThatIsNotInTheLog) {
  // Resumed in another folder: the log begins after step 4.
  const RunRecord record =
      record_of({{{"event", "start"}, {"steps", 9}, {"resumed_step", 4}}, step_event(5, 2)});
  EXPECT_EQ(record.seconds(), std::nullopt);
}

TEST(Series, ThinnedKeepTheEndsAndTheSpikes) {
  SeriesPoints points;
  for (int i = 0; i < 1000; ++i) points.push_back({i, 1});
  points[777].value = 9;
  points[300].value = -9;
  const SeriesPoints few = thinned(points, 50);
  EXPECT_LE(few.size(), 50U);
  EXPECT_EQ(few.front().step, 0);
  EXPECT_EQ(few.back().step, 999);
  EXPECT_THAT(
      few, AllOf(testing::Contains(SeriesPoint{777, 9}), testing::Contains(SeriesPoint{300, -9})));
  EXPECT_TRUE(std::ranges::is_sorted(few, {}, &SeriesPoint::step));
  EXPECT_EQ(thinned({{1, 1}, {2, 2}}, 4), (SeriesPoints{{1, 1}, {2, 2}}));
}

TEST(Series, LevelAtTheEndIsTheMeanOfTheLastTenth) {
  SeriesPoints points;
  for (int i = 1; i <= 20; ++i) points.push_back({i, static_cast<double>(i)});
  EXPECT_DOUBLE_EQ(level_at_end(points), 19.5);
  EXPECT_DOUBLE_EQ(level_at_end({{1, 7}}), 7);
  EXPECT_TRUE(std::isnan(level_at_end({})));
}

TEST(RunPage, IsWellFormedAndFetchesNothing) {
  const std::string page = run_page(full_run());
  test::expect_well_formed(page);
  test::expect_self_contained(page);
  EXPECT_THAT(page, AllOf(HasSubstr("@media (prefers-color-scheme: dark)"),
                          HasSubstr("content=\"width=device-width")));
}

TEST(RunPage, HasAChartForEveryGroupOfSeriesAndTheirLastValues) {
  const std::string page = run_page(full_run());
  for (const char* title : {"Loss", "Rewards", "Gradient norm", "Learning rate", "Speed",
                            "Device memory", "Exact match", "Labelled tokens", "Adapter norm"}) {
    EXPECT_THAT(page, HasSubstr("<strong>" + std::string(title) + "</strong>"));
  }
  for (const char* value : {"training <b>1.5</b>", "held out <b>2</b>", "chosen <b>5</b>",
                            "rejected <b>-5</b>", "peak <b>1.5 GiB</b>", "in use <b>1.0 GiB</b>"}) {
    EXPECT_THAT(page, HasSubstr(value));
  }
}

TEST(RunPage, ShowsTheReplySettingsDataAndResults) {
  const std::string page = run_page(full_run());
  for (const char* text :
       {"1 &lt; 2 &amp; &quot;so&quot; on?", "&lt;b&gt;no&lt;/b&gt;", "reply at 25", "reply at 50",
        "Adapter, step 50", "a &lt;fast&gt; &amp; small device", "<td>lr</td><td>0.002</td>",
        "a&amp;b.jsonl", "<b>12,345</b>", "<b>0:26</b>", "lowest held-out loss, step 50"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(RunPage, OfNothingIsStillAPage) { test::expect_well_formed(run_page({"x", {}, {}, 0})); }

TEST(Charts, PutPointsWhereTheAxesSay) {
  // From 0 to 10 steps and 0 to 1.06 in the picture: x = 50 to 390, y = 186 to 8.
  const LineChart chart{"Loss", "", false, {{"training", 0, false, {{0, 1}, {5, 0}, {10, 1}}}}};
  EXPECT_THAT(line_chart(chart), HasSubstr("points=\"50.0,18.1 220.0,186.0 390.0,18.1 \""));
  EXPECT_THAT(line_chart({"Loss", "", false, {}}), IsEmpty());
}

TEST(Charts, OfConstantOrSinglePointsHaveAnAxis) {
  for (const SeriesPoints& points : {SeriesPoints{{3, 0}}, SeriesPoints{{1, 2}, {2, 2}}}) {
    const std::string text = line_chart({"x", "", false, {{"x", 0, false, points}}});
    EXPECT_THAT(text,
                AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf")), HasSubstr("class=\"grid\"")));
  }
}

TEST(AdapterNorms, AreSummedBySquaresOverModulesAndBlocks) {
  const RunRecord record = record_of(full_log());
  EXPECT_THAT(norms_by_target(record.norms()[0]),
              ElementsAre(Pair("q_proj", 5.0), Pair("v_proj", 4.0), Pair("lm_head", 1.0)));
  EXPECT_THAT(norms_by_block(record.norms()[0]),
              ElementsAre(Pair("0", 5.0), Pair("1", 4.0), Pair("", 1.0)));
  const std::vector<HeatMap> maps = norm_maps(record);
  ASSERT_THAT(maps, SizeIs(2));
  EXPECT_THAT(maps[0].rows, ElementsAre("0", "1", "other"));
  EXPECT_THAT(maps[0].columns, ElementsAre("q", "v", "lm_head"));
  EXPECT_EQ(maps[0].values[1][0], 4);
  EXPECT_TRUE(std::isnan(maps[0].values[1][1]));
  EXPECT_THAT(maps[1].columns, ElementsAre("25", "50"));
}

TEST(AdapterNorms, OfAProductEqualThoseOfItsElements) {
  constexpr std::size_t kRank = 3, kInputs = 11, kOutputs = 5;
  std::vector<float> a(kRank * kInputs), bt(kRank * kOutputs);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(std::sin(3.0 + 1.7 * double(i)));
  for (std::size_t i = 0; i < bt.size(); ++i) bt[i] = static_cast<float>(std::cos(1.3 * double(i)));
  double squares = 0;
  for (std::size_t n = 0; n < kOutputs; ++n) {
    for (std::size_t k = 0; k < kInputs; ++k) {
      double sum = 0;
      for (std::size_t r = 0; r < kRank; ++r) {
        sum += double{bt[r * kOutputs + n]} * double{a[r * kInputs + k]};
      }
      squares += sum * sum;
    }
  }
  EXPECT_THAT(product_norm(a, bt, kRank), DoubleNear(std::sqrt(squares), 1e-9));
  EXPECT_EQ(product_norm(a, std::vector<float>(bt.size()), kRank), 0);
}

std::vector<std::string> view_of(const RunRecord& record, std::size_t columns,
                                 std::size_t rows = 24, bool colour = false) {
  std::vector<std::string> lines;
  for (const TerminalLine& line : training_view(record, {.total_steps = 100,
                                                        .seconds = 62,
                                                        .seconds_left = 93,
                                                        .size = {columns, rows},
                                                        .colour = colour})) {
    EXPECT_LT(line.width, columns) << line.text;
    lines.push_back(line.text);
  }
  return lines;
}

TEST(TrainingView, ShowsProgressLossEvaluationAndFigures) {
  const std::vector<std::string> lines = view_of(record_of(full_log()), 100);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], AllOf(HasSubstr("step 50 of 100 ━━━━━━━━━━━━━━━━━━━━────────────────────"),
                              HasSubstr(" 50 %  1:02  1:33 left")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("loss 1.5000  █"), HasSubstr("▁  from 2.9700")));
  EXPECT_EQ(lines[2], "held out 2.0000 at step 50");
  EXPECT_EQ(lines[3],
            "rate 0.002  900 tokens/s  1.0 GiB  gradient norm 0.5  rewards/chosen 5  "
            "rewards/rejected -5");
}

TEST(TrainingView, OmitsWhatANarrowOrLowTerminalHasNoPlaceFor) {
  const RunRecord record = record_of(full_log());
  EXPECT_THAT(view_of(record, 20), ElementsAre("step 50 of 100 ", "loss 1.5000  █▇▅▄▂▁",
                                               "held out 2.0000", "rate 0.002"));
  for (std::size_t columns = 1; columns < 120; ++columns) view_of(record, columns);
  EXPECT_THAT(view_of(record, 80, 3), SizeIs(2));
  EXPECT_THAT(view_of(record, 80, 1), SizeIs(1));
}

TEST(TrainingView, HasControlSequencesOnlyForColours) {
  const RunRecord record = record_of(full_log());
  EXPECT_THAT(view_of(record, 80), Each(Not(HasSubstr("\x1b"))));
  EXPECT_THAT(view_of(record, 80, 24, true), Each(HasSubstr("\x1b[2m")));
}

TEST(TrainingView, DrawsACurveOfMeansBetweenTheExtremes) {
  EXPECT_EQ(block_curve({{1, 0}, {2, 7}}, 10), "▁█");
  EXPECT_EQ(block_curve({{1, 0}, {2, 2}, {3, 3}, {4, 5}, {5, 8}, {6, 8}}, 3), "▁▄█");
  EXPECT_EQ(block_curve({{1, 3}, {2, 3}}, 10), "▁▁");
  EXPECT_EQ(block_curve({}, 10), "");
}

TEST(TerminalBlock, GoesBackOverTheRowsThatItsLinesTake) {
  const std::vector<TerminalLine> drawn{{"0123456789", 10}, {"ab", 2}};
  EXPECT_EQ(redrawing({}, 80, drawn), "\r0123456789\x1b[K\nab\x1b[K\x1b[J");
  EXPECT_EQ(redrawing(drawn, 80, {}), "\r\x1b[1A\x1b[J");
  EXPECT_EQ(redrawing(drawn, 4, {}), "\r\x1b[3A\x1b[J");  // 3 rows of 4 columns, and one
}

TEST(ReplySamples, AreCutBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc…");
  EXPECT_EQ(shortened("aäb", 2), "a…");
}

// ---- event files

// The fields of a protocol buffer: numbers of fields and their bytes; varints as 8 bytes.
std::multimap<std::uint64_t, std::string> fields_of(std::string_view bytes) {
  std::multimap<std::uint64_t, std::string> fields;
  const auto take = [&](std::size_t count) {
    const std::string part(bytes.substr(0, count));
    EXPECT_EQ(part.size(), count);
    bytes.remove_prefix(std::min(count, bytes.size()));
    return part;
  };
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (!bytes.empty()) {
    const std::uint64_t key = varint();
    const std::uint64_t type = key & 7;
    EXPECT_TRUE(type == 0 || type == 1 || type == 2 || type == 5) << type;
    std::string value;
    if (type == 0) {
      const std::uint64_t number = varint();
      value.assign(reinterpret_cast<const char*>(&number), sizeof number);
    } else {
      value = take(type == 1 ? 8 : type == 5 ? 4 : varint());
    }
    fields.emplace(key >> 3, value);
  }
  return fields;
}

template <class T>
T as(const std::string& bytes) {
  T value{};
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

std::string field(std::string_view bytes, std::uint64_t number) {
  const auto fields = fields_of(bytes);
  const auto found = fields.find(number);
  EXPECT_NE(found, fields.end()) << number;
  return found == fields.end() ? std::string() : found->second;
}

// The records of a file, whose lengths and checksums must match.
std::vector<std::string> records_of(std::string_view file) {
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t crc = crc32c(bytes);
    return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
  };
  std::vector<std::string> records;
  while (file.size() >= 16) {
    const auto length = as<std::uint64_t>(std::string(file.substr(0, 8)));
    EXPECT_EQ(as<std::uint32_t>(std::string(file.substr(8, 4))), masked(file.substr(0, 8)));
    const std::string_view data = file.substr(12, length);
    EXPECT_EQ(as<std::uint32_t>(std::string(file.substr(12 + length, 4))), masked(data));
    records.emplace_back(data);
    file.remove_prefix(16 + length);
  }
  EXPECT_THAT(file, IsEmpty());
  return records;
}

TEST(EventFile, HasTheChecksumOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(EventFile, ReadsBackAsTheNumbersOfTheEvents) {
  const test::TemporaryFolder folder;
  {
    EventFile file(folder / "events", 4);
    file.add({{"event", "start"}, {"steps", 9}});
    file.add(step_event(4, 1.25));
    file.add({{"event", "eval"}, {"step", 300}, {"loss", -2.5}, {"rewards", {{"margin", 0.5}}}});
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "events")) {
    files.push_back(entry.path());
  }
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_THAT(files[0].filename().string(), HasSubstr("tfevents"));
  const std::vector<std::string> records = records_of(test::read_file(files[0]));
  ASSERT_THAT(records, SizeIs(4));
  EXPECT_EQ(field(records[0], 3), "brain.Event:2");
  EXPECT_GT(as<double>(field(records[0], 1)), 1.7e9);
  EXPECT_EQ(as<std::int64_t>(field(records[1], 2)), 4);  // readers drop later steps of other files
  EXPECT_EQ(as<std::int64_t>(field(field(records[1], 7), 1)), 1);
  EXPECT_EQ(as<std::int64_t>(field(records[3], 2)), 300);
  std::map<std::string, float> values;
  for (const std::string& record : {records[2], records[3]}) {
    const auto fields = fields_of(field(record, 5));
    for (const auto& [number, value] : fields) {
      EXPECT_EQ(number, 1U);
      values[field(value, 1)] = as<float>(field(value, 2));
    }
  }
  EXPECT_EQ(values.at("train/loss"), 1.25F);
  EXPECT_EQ(values.at("train/tokens_per_s"), 900.0F);
  EXPECT_EQ(values.at("eval/loss"), -2.5F);
  EXPECT_EQ(values.at("eval/rewards/margin"), 0.5F);
}

// ---- comparison

// A run of `steps` of its 50 steps, with a loss that falls to `loss`.
LoggedRun run_of(const std::string& name, int steps, double loss,
                 std::vector<std::pair<std::string, std::string>> settings) {
  LoggedRun run{name, {}, std::move(settings), 0};
  run.record.add(
      {{"event", "start"}, {"device", "d"}, {"records", 8}, {"steps", 50}, {"resumed_step", 0}});
  for (int step = 1; step <= steps; ++step) run.record.add(step_event(step, loss));
  if (steps == 50) run.record.add({{"event", "done"}, {"seconds", 30.0}, {"stopped", false}});
  return run;
}

std::vector<LoggedRun> two_runs() {
  std::vector<LoggedRun> runs{
      run_of("out/a", 50, 1.5,
             {{"adapter-out", "out/a"}, {"report", "true"}, {"lr", "0.002"}, {"rank", "8"}}),
      run_of(
          "out/b", 20, 2.5,
          {{"adapter-out", "out/b"}, {"lr", "0.01"}, {"rank", "8"}, {"optimizer", "adamw-8bit"}})};
  for (const auto& [step, loss] : {std::pair{10, 2.25}, {20, 2.5}}) {
    runs[1].record.add({{"event", "eval"}, {"step", step}, {"loss", loss}});
  }
  return runs;
}

TEST(Comparison, HasTheResultsOfFinishedAndCutRuns) {
  EXPECT_THAT(
      lines_of(results_table(two_runs())),
      ElementsAre(
          "run    state     steps    loss  held out  lowest  at step  time  tokens/s   memory",
          "out/a   done        50  1.5000         –       –        –  0:30       900  1.5 GiB",
          "out/b    cut  20 of 50  2.5000    2.5000  2.2500       10  0:10       900  1.5 GiB"));
}

TEST(Comparison, ShowsOnlyTheSettingsThatDiffer) {
  EXPECT_THAT(lines_of(settings_table(two_runs())),
              ElementsAre("setting    out/a       out/b", "lr         0.002        0.01",
                          "optimizer      –  adamw-8bit"));
  std::vector<LoggedRun> same = two_runs();
  same[1].settings = same[0].settings;
  EXPECT_THAT(settings_table(same).rows, IsEmpty());
  same[1].record.add({{"event", "start"}, {"device", "e"}, {"records", 8}});
  EXPECT_THAT(settings_table(same).rows, ElementsAre(ElementsAre("device used", "d", "e")));
}

TEST(Comparison, CutsLongValues) {
  std::vector<LoggedRun> runs = two_runs();
  runs[0].settings = {{"data", std::string(60, 'x')}};
  EXPECT_THAT(lines_of(settings_table(runs))[1], HasSubstr(" " + std::string(39, 'x') + "…"));
}

TEST(Comparison, OverlaysTheCurvesOnAPage) {
  const std::string page = compare_page(two_runs());
  test::expect_well_formed(page);
  test::expect_self_contained(page);
  for (const char* text :
       {"<i class=\"s0\"></i>out/a <b>1.5</b>", "<i class=\"s1\"></i>out/b <b>2.5</b>",
        "<strong>Loss, held out</strong>", "<td>0.01</td>", "20 of 50"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(Comparison, ReadsALogWithACutLineAndReportsDamagedOnes) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "log.jsonl",
                   "{\"event\":\"step\",\"step\":1,\"loss\":2}\nno JSON\n{\"event\":\"st");
  test::write_file(folder / "run.toml", "# clora train\nlr = 0.01\ndata = [\"a\", \"b\"]\n");
  const LoggedRun run = read_run(folder.path());
  EXPECT_EQ(run.lines_left_out, 1);
  EXPECT_THAT(run.record.points("step", "loss"), SizeIs(1));
  EXPECT_THAT(run.settings,
              testing::UnorderedElementsAre(Pair("lr", "0.01"), Pair("data", "a, b")));
  EXPECT_THROW(read_run(folder / "none"), Error);
}

}  // namespace
}  // namespace clora
