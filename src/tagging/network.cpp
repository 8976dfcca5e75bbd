#include "tagging/network.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"

namespace burnish::tagging {

namespace {

constexpr int64_t kMostSide = 4096;

/// One number, or a list of equal ones, as timm writes the two sides of a picture; the last `count` of the list count.
int64_t side_in(const nlohmann::json& value, const char* what) {
  if (value.is_number_integer()) return value.get<int64_t>();
  const bool is_square =
      value.is_array() && value.size() >= 2 && value.back().is_number_integer() && value[value.size() - 2] == value.back();
  if (!is_square)
    data_error("tagging", "the config.json of the {} says that its pictures have sides of {}, and a square was expected", what,
               value.dump());
  return value.back().get<int64_t>();
}

}  // namespace

nlohmann::json arguments_of(const nlohmann::json& config) {
  const bool has = config.is_object() && config.contains("model_args") && config["model_args"].is_object();
  return has ? config["model_args"] : nlohmann::json();
}

int64_t side_of_pictures(const nlohmann::json& config, int64_t otherwise, const char* what) {
  auto side = otherwise;
  const auto arguments = arguments_of(config);
  if (arguments.is_object() && arguments.contains("img_size")) {
    side = side_in(arguments["img_size"], what);
  } else if (config.is_object() && config.contains("pretrained_cfg") && config["pretrained_cfg"].is_object() &&
             config["pretrained_cfg"].contains("input_size")) {
    side = side_in(config["pretrained_cfg"]["input_size"], what);
  }
  if (side < 1 || side > kMostSide)
    data_error("tagging", "the {} sees pictures of {} pixels a side by its config.json; 1 to {} were expected", what, side, kMostSide);
  return side;
}

}  // namespace burnish::tagging
