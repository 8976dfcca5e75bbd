#include "studio/grid.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/text.h"

namespace burnish::studio {

using nlohmann::json;

namespace {

constexpr size_t kMostCells = 1000;

/// Holds what is listed of one thing, under the name that a cell gives it.
struct Axis {
  std::string name;
  std::vector<json> values;
};

std::vector<json> values_of(const json& wish, const char* list, const json& otherwise = json()) {
  auto values = wish.value(list, json::array()).get<std::vector<json>>();
  if (values.empty()) values.push_back(otherwise);
  return values;
}

json checked_prompt(const json& value) {
  auto prompt = value.get<std::string>();
  std::ranges::replace(prompt, '\n', ' ');
  prompt = trim(prompt);
  if (prompt.starts_with('#'))
    config_error("studio", "the prompt '{}' begins with #, as notes in prompt files do; begin it otherwise", prompt);
  return prompt;
}

/// Refuses a number that no picture can be drawn by.
void check_whole(const json& value, const char* what, int64_t least, int64_t most) {
  if (value.is_null()) return;
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most)) ||
      value.get<int64_t>() < least || value.get<int64_t>() > most)
    config_error("studio", "{} must be a whole number from {} to {}, not {}", what, least, most, value.dump());
}

void check_number(const json& value, const char* what) {
  constexpr double kMost = 1e4;
  if (value.is_null()) return;
  if (!value.is_number() || !(std::abs(value.get<double>()) <= kMost))
    config_error("studio", "{} must be a number between -{} and {}, not {}", what, kMost, kMost, value.dump());
}

/// Refuses values of a cell that `burnish sample` would refuse once the model is loaded.
void check_cell(const json& cell) {
  if (const auto& size = cell.at("size"); !size.is_null()) {
    if (!size.is_array() || size.size() != 2) config_error("studio", "a size is a list of width and height, not {}", size.dump());
    check_whole(size[0], "the width of a picture", 1, kMostPixelsASide);
    check_whole(size[1], "the height of a picture", 1, kMostPixelsASide);
  }
  check_whole(cell.at("steps"), "the steps of a picture", 1, kMostSamplerSteps);
  check_whole(cell.at("seed"), "the seed of a picture", 0, INT64_MAX);
  check_number(cell.at("guidance"), "the guidance of a picture");
  check_number(cell.at("strength"), "a strength of LoRAs");
}

/// What changes the model stands first, so that it changes as seldom as may be.
std::vector<Axis> axes_of(const json& wish) {
  std::vector<Axis> axes;
  const auto& loras = wish.at("loras");
  std::vector<json> each;
  for (size_t i = 0; i < loras.size(); ++i) each.emplace_back(i);
  axes.push_back({"lora", wish.value("apart", false) && !each.empty() ? each : std::vector<json>{json()}});
  axes.push_back({"strength", values_of(wish, "strengths", loras.empty() ? json() : json(1.0))});
  axes.push_back({"size", values_of(wish, "sizes")});
  axes.push_back({"steps", values_of(wish, "steps")});
  axes.push_back({"guidance", values_of(wish, "guidance")});
  axes.push_back({"prompt", values_of(wish, "prompts", "")});
  axes.push_back({"seed", values_of(wish, "seeds", 0)});
  for (auto& prompt : axes[5].values) prompt = checked_prompt(prompt);
  return axes;
}

/// The strengths of all LoRAs in a cell; 0 for each where none is named, which leaves out those of a run too.
std::string strengths_of(const json& loras, const json& cell) {
  if (loras.empty()) return "0";
  std::vector<std::string> strengths;
  for (size_t i = 0; i < loras.size(); ++i) {
    const bool takes_part = cell.at("lora").is_null() || cell.at("lora") == i;
    strengths.push_back(fmt::format("{}", takes_part ? loras[i].value("strength", 1.0) * cell.at("strength").get<double>() : 0.0));
  }
  return fmt::format("{}", fmt::join(strengths, ","));
}

/// A line of a prompt file. Flags that the prompt itself has come first, and those of the grid win.
std::string line_of(const json& wish, const json& cell) {
  auto line = cell.at("prompt").get<std::string>();
  if (const auto& size = cell.at("size"); !size.is_null())
    line += fmt::format(" --w {} --h {}", size.at(0).get<int64_t>(), size.at(1).get<int64_t>());
  if (const auto& steps = cell.at("steps"); !steps.is_null()) line += fmt::format(" --s {}", steps.get<int64_t>());
  if (const auto& guidance = cell.at("guidance"); !guidance.is_null()) line += fmt::format(" --l {}", guidance.get<double>());
  if (!wish.at("loras").empty() || wish.value("leaves_out_loras", false)) line += " --am " + strengths_of(wish.at("loras"), cell);
  return line + fmt::format(" --d {}", cell.at("seed").get<int64_t>());
}

/// The next combination, the last axis changing first. False behind the last one.
bool advance(std::vector<size_t>& at, const std::vector<Axis>& axes) {
  for (size_t i = axes.size(); i-- > 0;) {
    if (++at[i] < axes[i].values.size()) return true;
    at[i] = 0;
  }
  return false;
}

/// Returns what a cell says of itself: what decides nothing in it is left out.
json described(const json& wish, json cell) {
  if (const auto& lora = cell.at("lora"); !lora.is_null()) cell["lora"] = wish.at("loras").at(lora.get<size_t>()).at("name");
  std::erase_if(cell.get_ref<json::object_t&>(), [](const auto& item) { return item.second.is_null(); });
  return cell;
}

/// Has every cell once more without each group of blocks, behind those of the whole LoRA, in the order in which sample draws them.
void leave_out_blocks(Grid& grid, const json& wish) {
  const auto& groups = wish.value("without_blocks", json(0));
  check_whole(groups, "the groups of blocks that are left out", 0, 100);
  if (groups == 0) return;
  if (wish.at("loras").size() != 1 || wish.value("strengths", json::array()).size() > 1)
    config_error("studio", "blocks are left out of one LoRA at one strength; choose one, or leave no blocks out");
  const auto count = groups.get<size_t>();
  if (grid.cells.size() * (count + 1) > kMostCells)
    config_error("studio", "this grid has more than {} pictures; list less of something", kMostCells);
  const auto whole = grid.cells;
  grid.cells = json::array();
  for (size_t group = 0; group <= count; ++group) {
    for (auto cell : whole) {
      cell["without"] = group;
      cell["picture"] = cell["picture"].get<int64_t>() + static_cast<int64_t>(group) * grid.num_pictures;
      grid.cells.push_back(std::move(cell));
    }
  }
  grid.num_pictures *= static_cast<int64_t>(count + 1);
}

}  // namespace

Grid make_grid(const json& wish) {
  const auto axes = axes_of(wish);
  size_t count = 1;
  for (const auto& axis : axes) {
    count *= axis.values.size();
    if (count > kMostCells) config_error("studio", "this grid has more than {} pictures; list less of something", kMostCells);
  }
  Grid grid{.prompts = "", .cells = json::array(), .num_pictures = 0};
  std::map<std::string, int64_t> numbers;  // of lines: combinations may come to the same, such as several LoRAs at 0
  std::vector<size_t> at(axes.size(), 0);
  do {
    json cell;
    for (size_t i = 0; i < axes.size(); ++i) cell[axes[i].name] = axes[i].values[at[i]];
    check_cell(cell);
    const auto line = line_of(wish, cell);
    const auto [number, is_new] = numbers.try_emplace(line, grid.num_pictures);
    if (is_new) {
      grid.prompts += line + "\n";
      ++grid.num_pictures;
    }
    cell = described(wish, std::move(cell));
    cell["picture"] = number->second;
    grid.cells.push_back(std::move(cell));
  } while (advance(at, axes));
  leave_out_blocks(grid, wish);
  return grid;
}

}  // namespace burnish::studio
