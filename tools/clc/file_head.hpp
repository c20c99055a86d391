// What a kernel file says to clc, in the comment block that it begins with:
//
//   //! clc: build [on DEVICES:] NAME[=VALUE]... OPTION...
//        a set of options to build it with; {a,b} is one set for each. DEVICES, by commas: cpu,
//        gpu, nvidia, avx512_vnni, or a matrix unit or better: avx512_bf16, amx, mma, wgmma. The
//        set is not built on other devices.
//   //! clc: budget [of KERNEL] [on TARGET] NAME<=VALUE...
//        what `clc stats` may find: registers, spills, local, private; = is exactly
//   //! clc: grid [of KERNEL] X[,Y[,Z]] [by X[,Y[,Z]]]
//        work-items in all and in a work-group, as expressions (tools/clc/expression.hpp) of -D
//        values and of the call's whole numbers: a call then need not say them
//   //! clc: tune [of KERNEL] NAME={a,b,c}... [where EXPRESSION]
//        the options that `clc tune` tries
//   //! clc: allow RULE REASON
//        a rule of `clc lint` that does not hold for this file
//   //!      more of the line before
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.hpp"

namespace clora {

struct BuildSet {
  std::vector<std::string> devices;  // any of them; empty: all
  std::string options;               // "-D X_TYPE=f32 -cl-mad-enable"
};

struct BudgetLimit {
  std::string name;  // "registers"
  bool exact = false;
  double value = 0;
};
struct Budget {
  std::string kernel, target;  // empty: all
  std::vector<BudgetLimit> limits;
};

struct TuneParameter {
  std::string name;
  std::vector<std::string> values;
};
struct TuneSpace {
  std::string kernel;  // empty: all
  std::vector<TuneParameter> parameters;
  std::string where;  // empty: all
};

struct GridRule {
  std::string kernel;         // empty: all
  std::string global, local;  // "ceil(M/TILE)*SIDE,1"; local empty: not said
};

struct AllowedRule {
  std::string rule, reason;
};

struct FileHead {
  std::vector<BuildSet> builds;
  std::vector<Budget> budgets;
  std::vector<GridRule> grids;
  std::vector<TuneSpace> tunes;
  std::vector<AllowedRule> allowed;
};

// Of the text of `file`, which the errors name. Errors: invalid_file, with the line and what may
// stand there.
FileHead read_file_head(std::string_view text, std::string_view file);

// The options of "NAME[=VALUE] -option": names get their -D.
std::string options_of_words(const std::vector<std::string>& words);

// Each choice of one value for each parameter, in order, the last one changing fastest.
std::vector<std::vector<std::string>> choices_of(const std::vector<TuneParameter>& parameters);

// Whether a set is meant for a device.
bool is_meant_for(const BuildSet& set, const Device& device);

}  // namespace clora
