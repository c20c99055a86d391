// percent_formatted() of operators.hpp: "%s: %05.2f" % (name, number).
#include "model/text/jinja/formatting.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(const Text& format, const Value& value, WorkBudget& budget)
      : format_(format), value_(value), budget_(budget) {}

  Text write() {
    const std::string& bytes = format_.bytes();
    for (std::size_t i = 0; i < bytes.size();) {
      const std::size_t percent = std::min(bytes.find('%', i), bytes.size());
      out_.append_slice(format_, i, percent);
      i = percent == bytes.size() ? percent : add_conversion(percent + 1);
    }
    const List* list = value_.list();
    const bool used = list == nullptr || !list->is_tuple || next_ == list->items.size();
    require(used && (next_ > 0 || named_ || value_.dict() != nullptr || is_tuple()),
            "not all arguments of % were converted");
    return std::move(out_);
  }

 private:
  bool is_tuple() const { return value_.list() != nullptr && value_.list()->is_tuple; }

  char at(std::size_t i) const {
    require(i < format_.size(), "the format of % ends in an incomplete conversion");
    return format_.bytes()[i];
  }

  std::int64_t read_number(std::size_t& i) const {
    std::int64_t number = 0;
    for (; at(i) >= '0' && at(i) <= '9'; ++i)
      number = std::min<std::int64_t>(number * 10 + (at(i) - '0'), 1 << 30);
    return number;
  }

  void read_flags(std::size_t& i, FormatSpec& spec) const {
    for (;; ++i) {
      const char c = at(i);
      if (c == '-') {
        spec.align = '<';
      } else if (c == '0') {
        zero_ = true;
      } else if (c == '+' || c == ' ') {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else {
        return;
      }
    }
  }

  // Returns the position after the conversion that begins at i, after its percent sign.
  std::size_t add_conversion(std::size_t i) {
    FormatSpec spec{.align = '>'};
    zero_ = false;
    std::string name;
    if (at(i) == '(') {
      const std::size_t end = format_.bytes().find(')', i);
      require(end != std::string::npos, "the format of % has '(' without ')'");
      name = format_.bytes().substr(i + 1, end - i - 1);
      named_ = true;
      i = end + 1;
    }
    read_flags(i, spec);
    spec.width = read_number(i);
    if (at(i) == '.') spec.precision = read_number(++i);
    const char kind = at(i);
    if (kind == '%') {
      out_.append(std::string_view("%"));
    } else {
      add(named_ && !name.empty() ? named(name) : next(), spec, kind);
    }
    return i + 1;
  }

  Value named(const std::string& name) const {
    require(value_.dict() != nullptr, "the format of % needs a dictionary");
    const Value* found = value_.dict()->find(name);
    require(found != nullptr, "the format of % names '{}', which is not in the dictionary", name);
    return *found;
  }

  Value next() {
    if (!is_tuple()) {
      require(next_++ == 0, "not enough arguments for the format of %");
      return value_;
    }
    require(next_ < value_.list()->items.size(), "not enough arguments for the format of %");
    return value_.list()->items[next_++];
  }

  void add(const Value& value, FormatSpec spec, char kind) {
    if (kind == 's' || kind == 'r') {
      spec.kind = 's';
      const Text text = kind == 's' ? text_of(value, budget_) : repr_of(value, budget_);
      return out_.append(formatted(text, spec, budget_));
    }
    require(std::string_view("diuxXofFeEgG").find(kind) != std::string_view::npos,
            "the format of % has the conversion '{}', which is not supported", kind);
    require(value.is_number(), "the conversion %{} needs a number, got {}", kind,
            value.kind_name());
    const bool whole = kind == 'd' || kind == 'i' || kind == 'u';
    if (zero_ && spec.align != '<') {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
    spec.kind = whole ? 'd' : kind;
    const bool cut = whole && value.real() != nullptr;
    if (cut) require(std::abs(*value.real()) < 9e18, "a number does not fit 64 bits");
    out_.append(
        formatted(cut ? Value(static_cast<std::int64_t>(*value.real())) : value, spec, budget_));
  }

  const Text& format_;
  const Value& value_;
  WorkBudget& budget_;
  Text out_;
  std::size_t next_ = 0;
  bool named_ = false;
  mutable bool zero_ = false;
};

}  // namespace

Text percent_formatted(const Text& format, const Value& value, WorkBudget& budget) {
  budget.text(format.size());
  return PercentFormatter(format, value, budget).write();
}

}  // namespace clora::jinja
