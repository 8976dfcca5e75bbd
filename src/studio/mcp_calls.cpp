#include "studio/mcp_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "report/data_url.h"

namespace burnish::studio {

using nlohmann::json;
using Kind = Input::Kind;
using Effect = Tool::Effect;

namespace {

constexpr size_t kMostOfAPicture = 8 << 20;

/// The JSON Schema of an option, by its row.
json schema_of_option(const json& option) {
  static const std::vector<std::pair<std::string, json>> kTypes{{"text", {{"type", "string"}}},
                                                                {"whole number", {{"type", "integer"}}},
                                                                {"number", {{"type", "number"}}},
                                                                {"truth value", {{"type", "boolean"}}},
                                                                {"list of texts", {{"type", "array"}, {"items", {{"type", "string"}}}}}};
  json schema = std::ranges::find(kTypes, option.at("type").get<std::string>(), &std::pair<std::string, json>::first)->second;
  auto meaning = option.at("meaning").get<std::string>();
  if (option.contains("unit")) meaning += " (" + option["unit"].get<std::string>() + ")";
  if (option.contains("belongs_to")) meaning += "; belongs to " + option["belongs_to"][0].get<std::string>();
  schema["description"] = meaning;
  schema["default"] = option.at("default");
  if (option.contains("choices")) schema["examples"] = option["choices"];
  if (option.contains("least")) schema["minimum"] = option["least"];
  if (option.contains("most")) schema["maximum"] = option["most"];
  return schema;
}

/// "options" and "settings": those of a first run with all that is known of them, others by list_options.
json schema_of_settings(const json& options) {
  auto known = json::object();
  for (const auto& option : options.at("options")) {
    if (option.at("level") == "first_run" && !option.value("acts_outside", false))
      known[option.at("name").get<std::string>()] = schema_of_option(option);
  }
  return {{"options",
           {{"type", "object"},
            {"description",
             "options of the run by name; those that are not listed here are found with list_options. Datasets are named "
             "../datasets/NAME in dataset_base_path"},
            {"properties", known},
            {"additionalProperties", true}}},
          {"settings",
           {{"type", "string"}, {"description", "settings as a TOML file has them, of a recipe or another run; options are added"}}}};
}

json schema_of(const Input& input) {
  static constexpr std::array kTypes{"string", "integer", "boolean", "object", "object"};
  json schema{{"type", kTypes.at(static_cast<size_t>(input.kind))}, {"description", input.meaning}};
  if (!input.choices.empty()) schema["enum"] = input.choices;
  if (input.kind == Kind::number) schema["minimum"] = 0;
  if (input.kind == Kind::texts_by_name) schema["additionalProperties"] = {{"type", "string"}};
  return schema;
}

json schema_of(const Tool& tool, const json& options) {
  json schema{{"type", "object"}, {"properties", json::object()}, {"required", json::array()}, {"additionalProperties", false}};
  for (const auto& input : tool.inputs) {
    if (input.kind == Kind::settings) schema["properties"].update(schema_of_settings(options));
    else schema["properties"][input.name] = schema_of(input);
    if (input.is_needed) schema["required"].push_back(input.name);
  }
  return schema;
}

bool is_of(const json& value, const Input& input) {
  switch (input.kind) {
    case Kind::text:
      return value.is_string() &&
             (input.choices.empty() || std::ranges::find(input.choices, value.get<std::string>()) != input.choices.end());
    case Kind::number: return value.is_number_unsigned();
    case Kind::truth: return value.is_boolean();
    case Kind::settings: return value.is_object();
    case Kind::texts_by_name: return value.is_object() && std::ranges::all_of(value, [](const json& text) { return text.is_string(); });
  }
  return false;
}

/// A config Error for arguments that the tool does not take.
void check(const Tool& tool, const json& arguments) {
  if (!arguments.is_object()) config_error("studio", "the arguments of {} must be an object", tool.name);
  std::vector<std::string> names;
  for (const auto& input : tool.inputs) {
    names.emplace_back(input.name);
    if (input.kind == Kind::settings) names.emplace_back("settings");
    if (input.is_needed && !arguments.contains(input.name))
      config_error("studio", "{} needs '{}': {}", tool.name, input.name, input.meaning);
    if (arguments.contains(input.name) && !is_of(arguments[input.name], input))
      config_error("studio", "'{}' of {} must be a {}{}", input.name, tool.name, schema_of(input)["type"].get<std::string>(),
                   input.choices.empty() ? "" : " among " + schema_of(input)["enum"].dump());
  }
  for (const auto& [name, value] : arguments.items()) {
    if (!contains(names, name))
      config_error("studio", "{} takes no '{}'; it takes {}", tool.name, one_line(name), names.empty() ? "nothing" : join(names));
  }
}

/// Tells whether it is a value of TOML as it is of JSON.
bool is_value(const json& value) {
  auto is_scalar = [](const json& one) { return one.is_string() || one.is_number() || one.is_boolean(); };
  return is_scalar(value) || (value.is_array() && std::ranges::all_of(value, is_scalar));
}

/// The path with the names in it, and the body of what the path does not name.
std::pair<std::string, json> request_of(const Tool& tool, const json& arguments) {
  std::string path = tool.path;
  json body = std::string(tool.method) == "POST" ? json::object() : json();
  for (const auto& input : tool.inputs) {
    if (input.kind == Kind::settings) body["settings"] = settings_text(arguments);
    if (input.kind == Kind::settings || !arguments.contains(input.name)) continue;
    const auto& value = arguments.at(input.name);
    const auto place = fmt::format("{{{}}}", input.name);
    const auto at = path.find(place);
    if (at != std::string::npos) path.replace(at, place.size(), in_address(value.is_string() ? value.get<std::string>() : value.dump()));
    else if (!body.is_null()) body[input.name] = value;
  }
  return {path, body};
}

json text_result(const std::string& text, bool is_error) {
  return {{"content", json::array({{{"type", "text"}, {"text", text}}})}, {"isError", is_error}};
}

/// Returns what an assistant gets of an answer.
json result_of(const Tool& tool, const json& arguments, const Answered& answered) {
  if (answered.status == 0) return text_result("the studio does not answer; ask once more", true);
  if (answered.status == 200 && answered.media_type.starts_with("image/")) {
    if (answered.body.size() > kMostOfAPicture) return text_result("the picture is larger than 8 MiB", true);
    const auto url = report::data_url("", answered.body);
    return {{"content", json::array({{{"type", "image"}, {"data", url.substr(url.find(',') + 1)}, {"mimeType", answered.media_type}}})},
            {"isError", false}};
  }
  auto value = json::parse(answered.body, nullptr, /*allow_exceptions=*/false);
  if (answered.status != 200) {
    const bool says = value.is_object() && value.contains("sentence");
    return text_result(says ? value["sentence"].get<std::string>() : fmt::format("there is no such thing ({})", answered.status), true);
  }
  if (tool.chosen != nullptr) value = tool.chosen(value, arguments);
  if (value.is_array()) value = page_of(value, arguments);
  if (!value.is_object()) return text_result("the answer is of another kind than was asked for", true);
  auto result = text_result(value.dump(-1, ' ', false, json::error_handler_t::replace), false);
  result["structuredContent"] = std::move(value);
  return result;
}

}  // namespace

json describe(const std::vector<Tool>& tools, const json& options) {
  auto list = json::array();
  for (const auto& tool : tools) {
    list.push_back({{"name", tool.name},
                    {"description", tool.meaning},
                    {"inputSchema", schema_of(tool, options)},
                    {"annotations",
                     {{"readOnlyHint", tool.effect == Effect::reads},
                      {"destructiveHint", tool.effect == Effect::removes},
                      {"openWorldHint", false}}}});
  }
  return list;
}

std::string settings_text(const json& arguments) {
  std::string text;
  const auto options = arguments.value("options", json::object());
  for (const auto& [name, value] : options.items()) {
    const bool is_name = !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string::npos;
    if (!is_name) config_error("studio", "'{}' is no option; list_options lists them", one_line(name));
    if (!is_value(value)) config_error("studio", "the value of {} must be a text, a number, true or false, or a list of these", name);
    text += fmt::format("{} = {}\n", name, value.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  if (!arguments.contains("settings")) return text;
  if (!arguments["settings"].is_string()) config_error("studio", "settings must be a text of TOML");
  return text + arguments["settings"].get<std::string>();
}

json call(const Tool& tool, const json& arguments, const Ask& ask) {
  try {
    check(tool, arguments);
    const auto [path, body] = request_of(tool, arguments);
    return result_of(tool, arguments, ask(tool.method, path, body));
  } catch (const Error& error) {
    return text_result(without_source(error), true);
  } catch (const json::exception&) {
    return text_result("the studio answers otherwise than this program expects; is it of another version?", true);
  }
}

}  // namespace burnish::studio
