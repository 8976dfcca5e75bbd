#include "studio/pace.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/files.h"
#include "io/json.h"

namespace burnish::studio {

using nlohmann::json;

namespace {

constexpr int kMostRuns = 30;  // that are looked at, the newest first

double multiplications_of(const json& plan) { return plan.value(json::json_pointer("/length/multiplications_a_step"), 0.0); }

/// Tells whether a step of one says how long a step of the other takes.
bool are_alike(const json& a, const json& b) {
  for (const char* option : {"model", "model_paths", "model_id_with_origin_paths", "dtype", "fp8_models", "device"}) {
    if (a.value(option, json()) != b.value(option, json())) return false;
  }
  return true;
}

}  // namespace

json pace_of(const json& plan, const json& values, const Workspace& workspace, Runs& runs,
             const std::function<json(const std::string&)>& form) {
  const auto work = multiplications_of(plan);
  if (!(work > 0)) return nullptr;
  int num_seen = 0;
  for (const auto& card : runs.list()) {
    if (!card.value("seconds_a_step", json()).is_number()) continue;
    if (++num_seen > kMostRuns) break;
    const auto name = card.at("name").get<std::string>();
    const auto folder = workspace.runs() / name;
    try {
      const auto its_plan = io::read_json(folder / "plan.json");
      const auto its_work = multiplications_of(its_plan);
      const bool is_of_same = its_plan.value("device", "") == plan.value("device", "");
      if (!(its_work > 0) || !is_of_same || !are_alike(form(io::read_text(folder / "config.toml")).at("values"), values)) continue;
      return {{"seconds_a_step", card.at("seconds_a_step").get<double>() * work / its_work}, {"run", name}};
    } catch (const Error&) {  // a run without a plan, or one that is being written
    } catch (const json::exception&) {
    }
  }
  return nullptr;
}

}  // namespace burnish::studio
