#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/table.h"

namespace burnish::foreign {

/// Reads a file that settings name; null when it is not there.
using Open = std::function<Value(const std::string& path)>;

/// Settings in the form that a program's table is written for.
struct Arranged {
  Value tree;
  bool whole = true;                          ///< settings of a run, not of its data alone
  std::vector<std::string> not_carried = {};  ///< "name = value: why"
};

/// A program, other than this one, whose settings can be read.
struct Program {
  std::string word;   ///< word for --from
  std::string title;  ///< title by which people call it
  bool (*recognises)(const Value& tree);
  Arranged (*arrange)(Value tree, const Open& open);
  Table (*table)();
};

// Each in a file of its own.
Program kohya();
Program musubi();
Program onetrainer();
Program ai_toolkit();
Program diffusion_pipe();
Program accelerate();

/// Lists all programs, in the order in which they are asked.
std::vector<Program> programs();

/// The options that sd-scripts and what grew from it share: training, optimizer, schedule, saving. `flows` says of which kind the model is.
Table kohya_training(bool (*flows)(const Settings&));

/// Reads fp32, bf16 or fp16 as a run's dtype; models that flow, and weights that train, are not held in fp16 (`too_narrow`).
Outcome dtype_of_run(const std::string& bits, bool too_narrow);

/// Keeps the first of several datasets; the others are not carried.
Value first_of(const std::vector<std::pair<std::string, Value>>& datasets, Arranged& arranged);

/// Reads "a=1" entries of an argument list as an object.
Value named_arguments(const Value& list);

/// Computes 1 - share, without the last digits that a difference of fractions leaves.
double rest_of(double share);

/// A list of whole numbers, or a text like "1024,768", as numbers; one number stands for both sides.
std::vector<int64_t> sides_of(const Value& resolution);

/// Rows that turn an area or a size of pictures into max_pixels, or height and width where `fixed` says so.
std::vector<Row> size_rows(const std::string& theirs, std::function<bool(const Settings&)> fixed);

/// A sentence: why a model, or training, of another kind than burnish has is not carried.
extern const char* const kAnotherKind;

/// Tells it of what `theirs` names, but for `known` kinds (in small letters; "zimage_*" is all that begin so).
Row kind_row(const std::string& theirs, std::vector<std::string> known);

/// A sentence: why reference pictures of a folder of their own are not carried.
extern const char* const kNameReferences;

/// The ending of caption files, whose point may be left out.
Row caption_ending_row(const std::string& theirs);

/// Rows of an optimizer's weight decay: the given, or what the program's optimizer takes, which is often 0.
Row weight_decay_row(const std::string& theirs, std::function<std::string(const Settings&)> optimizer);

}  // namespace burnish::foreign
