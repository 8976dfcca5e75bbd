#include "foreign/program.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace burnish::foreign {

std::vector<Program> programs() { return {diffusion_pipe(), ai_toolkit(), onetrainer(), musubi(), kohya(), accelerate()}; }

Value first_of(const std::vector<std::pair<std::string, Value>>& datasets, Arranged& arranged) {
  for (size_t i = 1; i < datasets.size(); ++i)
    arranged.not_carried.push_back(datasets[i].first + ": the first dataset is taken; put the others into a dataset_config");
  return datasets.empty() ? Value::object() : datasets[0].second;
}

Value named_arguments(const Value& list) {
  if (list.is_object()) return list;
  auto object = Value::object();
  for (const auto& item : list.is_array() ? list : Value::array({list})) {
    auto text = text_of(item);
    auto equals = text.find('=');
    object[text.substr(0, equals)] = equals == text.npos ? "true" : text.substr(equals + 1);
  }
  return object;
}

Outcome dtype_of_run(const std::string& bits, bool too_narrow) {
  if (bits.empty()) return left_out("a dtype is fp32, bf16 or fp16");
  return bits == "fp16" && too_narrow
             ? carried("bf16", "weights that train, and models that flow, are held in bf16, since fp16 is too narrow for them")
             : carried(bits);
}

double rest_of(double share) { return std::round((1 - share) * 1e9) / 1e9; }

std::vector<int64_t> sides_of(const Value& resolution) {
  std::vector<int64_t> sides;
  auto list = resolution;
  if (resolution.is_string()) list = split_list(resolution.get<std::string>());
  for (const auto& item : list.is_array() ? list : Value::array({list})) {
    auto number = number_of(item);
    if (!number || *number < 1 || *number > 1e6) return {};
    sides.push_back(std::lround(*number));
  }
  if (sides.size() == 1) sides.push_back(sides[0]);
  return sides.size() == 2 ? sides : std::vector<int64_t>();
}

std::vector<Row> size_rows(const std::string& theirs, std::function<bool(const Settings&)> fixed) {
  auto row = [&](const char* ours, auto convert) {
    return rewritten(theirs, ours, [fixed, convert, is_area = std::string(ours) == "max_pixels"](const Value& value, const Settings& all) {
      auto sides = sides_of(value);
      if (sides.empty()) return left_out("a run has one size; give height and width, or max_pixels");
      return fixed(all) == is_area ? left_out("") : carried(convert(sides));
    });
  };
  using Sides = const std::vector<int64_t>&;
  return {row("width", [](Sides sides) { return sides[0]; }), row("height", [](Sides sides) { return sides[1]; }),
          row("max_pixels", [](Sides sides) { return sides[0] * sides[1]; })};
}

const char* const kAnotherKind = "this kind is not trained here, and what is carried would train another";

Row kind_row(const std::string& theirs, std::vector<std::string> known) {
  return rewritten(theirs, "", [known = std::move(known)](const Value& value, const Settings&) {
    auto kind = lower(text_of(value));
    bool is_known = std::any_of(known.begin(), known.end(), [&](const std::string& one) {
      return one.ends_with('*') ? kind.starts_with(one.substr(0, one.size() - 1)) : kind == one;
    });
    return left_out(is_known ? "" : kAnotherKind);
  });
}

const char* const kNameReferences =
    "name the pictures that the model sees in a column of a metadata file, for extra_inputs (docs/train.md)";

Row caption_ending_row(const std::string& theirs) {
  return rewritten(theirs, "caption_extension", [](const Value& value, const Settings&) {
    auto ending = text_of(value);
    return carried(ending.starts_with(".") ? ending : "." + ending);
  });
}

Row weight_decay_row(const std::string& theirs, std::function<std::string(const Settings&)> optimizer) {
  auto convert = [theirs, optimizer](const Value& value, const Settings& all) {
    if (all.has(theirs)) return carried(value);
    auto name = optimizer(all);
    return name.starts_with("adamw") && name != "adamw_schedulefree" ? left_out("") : carried(0.0);  // what their other optimizers take
  };
  return rewritten(theirs, "weight_decay", convert, 0.0);
}

}  // namespace burnish::foreign
