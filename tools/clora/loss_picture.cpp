#include "tools/clora/loss_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/command_line/markup.hpp"

namespace clora {
namespace {

constexpr double kWidth = 720, kHeight = 400;
constexpr double kLeft = 64, kRight = 24, kTop = 48, kBottom = 52;
constexpr double kLegend = 480;        // its left edge
constexpr std::size_t kMeanFrom = 40;  // minimum number of points for a running mean

// Colours with enough contrast on white and on near-black; the text colour follows the page.
constexpr const char* kStyle = R"(<style>
  text { font: 13px system-ui, sans-serif; fill: #333 }
  .title { font-weight: 600; font-size: 15px }
  .grid { stroke: #888; stroke-opacity: .25 }
  .axis { stroke: #888 }
  .train { fill: none; stroke: #2a7de1; stroke-width: 2; stroke-linejoin: round }
  .faint { stroke-width: 1; stroke-opacity: .35 }
  .valid { fill: #e8710a }
  .link { fill: none; stroke: #e8710a; stroke-dasharray: 4 4 }
  @media (prefers-color-scheme: dark) { text { fill: #ddd } .train { stroke: #6aabf7 } }
</style>
)";

struct Frame {  // maps values to the chart
  double first_step, last_step, low, high;

  double x(double step) const {
    return kLeft + (step - first_step) / (last_step - first_step) * (kWidth - kLeft - kRight);
  }
  double y(double loss) const {
    return kHeight - kBottom - (loss - low) / (high - low) * (kHeight - kTop - kBottom);
  }
};

std::vector<LossPoint> finite(const std::vector<LossPoint>& points) {
  std::vector<LossPoint> kept;
  std::ranges::copy_if(points, std::back_inserter(kept),
                       [](const LossPoint& point) { return std::isfinite(point.loss); });
  return kept;
}

Frame frame_of(const LossCurve& curve) {
  Frame frame{0, 1, 0, 0};
  for (const auto* points : {&curve.train, &curve.valid}) {
    for (const LossPoint& point : *points) {
      frame.last_step = std::max(frame.last_step, static_cast<double>(point.step));
      frame.high = std::max(frame.high, point.loss);
    }
  }
  frame.high = frame.high > 0 ? frame.high * 1.05 : 1;
  return frame;
}

std::string polyline(const std::vector<LossPoint>& points, const Frame& frame, const char* style) {
  std::string text = fmt::format("<polyline class=\"{}\" points=\"", style);
  for (const LossPoint& point : points) {
    text += fmt::format("{:.1f},{:.1f} ", frame.x(static_cast<double>(point.step)),
                        frame.y(point.loss));
  }
  return text + "\"/>\n";
}

// The running mean over a twenty-fifth of the points, centred on each point to avoid a lag.
std::vector<LossPoint> smoothed(const std::vector<LossPoint>& points) {
  const std::size_t reach = points.size() / 50;
  std::vector<LossPoint> means = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t near = std::min({reach, i, points.size() - 1 - i});
    double sum = 0;
    for (std::size_t j = i - near; j <= i + near; ++j) sum += points[j].loss;
    means[i].loss = sum / static_cast<double>(2 * near + 1);
  }
  return means;
}

std::string axes(const Frame& frame) {
  std::string text;
  for (const double loss : axis_marks(frame.low, frame.high, 6)) {
    const double y = frame.y(loss);
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        kLeft, kWidth - kRight, y, kLeft - 8, y + 4, loss);
  }
  const double floor = kHeight - kBottom;
  for (const double step : axis_marks(frame.first_step, frame.last_step, 8)) {
    if (step != std::floor(step)) continue;
    text += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        frame.x(step), floor, floor + 5, floor + 20, step);
  }
  return text + fmt::format(
                    "<path class=\"axis\" fill=\"none\" d=\"M{0} {1}V{2}H{3}\"/>\n<text x=\"{4}\" "
                    "y=\"{5}\" text-anchor=\"middle\">step</text>\n<text transform=\"translate(16 "
                    "{6}) rotate(-90)\" text-anchor=\"middle\">loss, nats per token</text>\n",
                    kLeft, kTop, floor, kWidth - kRight, (kLeft + kWidth - kRight) / 2,
                    kHeight - 12, (kTop + floor) / 2);
}

std::string train_part(const std::vector<LossPoint>& train, const Frame& frame) {
  if (train.empty()) return {};
  std::string text;
  if (train.size() < kMeanFrom) {
    text = polyline(train, frame, "train");
  } else {
    text = polyline(train, frame, "train faint") + polyline(smoothed(train), frame, "train");
  }
  return text + fmt::format(
                    "<path class=\"train\" d=\"M{0} 66h24\"/><text x=\"{1}\" y=\"70\">"
                    "training, {2:.3g} at the end</text>\n",
                    kLegend, kLegend + 32, train.back().loss);
}

std::string valid_part(const std::vector<LossPoint>& valid, const Frame& frame) {
  if (valid.empty()) return {};
  std::string text = polyline(valid, frame, "link");
  for (const LossPoint& point : valid) {
    text += fmt::format("<circle class=\"valid\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n",
                        frame.x(static_cast<double>(point.step)), frame.y(point.loss));
  }
  return text + fmt::format(
                    "<circle class=\"valid\" cx=\"{0}\" cy=\"88\" r=\"4\"/>"
                    "<text x=\"{1}\" y=\"92\">held out, {2:.3g} at the end</text>\n",
                    kLegend + 12, kLegend + 32, valid.back().loss);
}

}  // namespace

std::vector<double> axis_marks(double low, double high, int wanted) {
  const double rough = (high - low) / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double distance = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      distance = factor * power;
      break;
    }
  }
  std::vector<double> marks;
  const auto first = static_cast<std::int64_t>(std::ceil(low / distance - 1e-9));
  for (std::int64_t i = first; static_cast<double>(i) * distance <= high * (1 + 1e-12); ++i) {
    marks.push_back(static_cast<double>(i) * distance);
  }
  return marks;
}

std::string loss_picture(const LossCurve& given) {
  const LossCurve curve{given.title, finite(given.train), finite(given.valid)};
  const Frame frame = frame_of(curve);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n",
             kWidth, kHeight, html_escaped(curve.title)) +
         kStyle +
         fmt::format("<text class=\"title\" x=\"{}\" y=\"34\">{}</text>\n", kLeft,
                     html_escaped(curve.title)) +
         axes(frame) + train_part(curve.train, frame) + valid_part(curve.valid, frame) + "</svg>\n";
}

}  // namespace clora
