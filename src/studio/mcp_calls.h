#pragma once
#include "studio/client.h"
#include "studio/mcp_tools.h"

namespace burnish::studio {

/// The tools as tools/list has them. `options`: of training, as config::to_json lists them.
nlohmann::json describe(const std::vector<Tool>& tools, const nlohmann::json& options);

/// The result of tools/call. What the interface refuses, or the arguments lack, is a result too, with "isError".
nlohmann::json call(const Tool& tool, const nlohmann::json& arguments, const Ask& ask);

/// TOML of "options", an object of values by name, and of "settings", a text that stands behind them. A config Error for what is no
/// option's name or value.
std::string settings_text(const nlohmann::json& arguments);

}  // namespace burnish::studio
