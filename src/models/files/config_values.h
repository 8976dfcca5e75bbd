#pragma once
#include <initializer_list>

#include "io/model_values.h"

// What families do alike when they read the numbers of an architecture from the shapes of tensors and from a config.json.
namespace burnish::models {

/// Overwrites `value` with config.json's, where it has one. Throws a data Error where `value` was read from shapes and is another.
template <class T>
void agree_on(const nlohmann::json& config, const char* key, T& value, bool from_shapes, const char* what = "transformer") {
  if (from_shapes) return io::agree(config, key, value, what);
  io::take(config, key, value, what);
}

/// Throws a data Error where config.json states another value than the one that all models of a family have.
template <class T>
void agree_on_known(const nlohmann::json& config, const char* key, const T& value) {
  auto stated = value;
  if (io::take(config, key, stated, "transformer") && stated != value)
    data_error("models", "config.json says {} = {}; {} was expected, as all models have it of which this transformer could be", key,
               nlohmann::json(stated).dump(), nlohmann::json(value).dump());
}

/// A number of an architecture, and where the files of a model say it.
template <class Config>
struct Number {
  int64_t Config::*field;
  /// The tensor of which the number is the side `dim`; with "{}" in the name, the number is how many such tensors there are, counted from
  /// 0. Null where no tensor says it.
  const char* tensor;
  size_t dim;
  const char* key;  ///< key in config.json; null where that does not say it
};

/// Reads the numbers that tensors say. Throws a data Error when one of them is missing.
template <class Config, size_t N>
void read_tensors(Config& config, const Number<Config> (&numbers)[N], const io::Shapes& shapes) {
  for (const auto& [field, tensor, dim, key] : numbers) {
    if (tensor == nullptr) continue;
    bool is_counted = std::string_view(tensor).find("{}") != std::string_view::npos;
    config.*field = is_counted ? io::count_of(shapes, tensor) : io::side_of(shapes, tensor, dim, "transformer");
  }
}

/// Reads the numbers that config.json says. Throws a data Error where tensors were read before and said another.
template <class Config, size_t N>
void read_keys(Config& config, const Number<Config> (&numbers)[N], const nlohmann::json& json, bool from_shapes) {
  for (const auto& [field, tensor, dim, key] : numbers) {
    if (key != nullptr) agree_on(json, key, config.*field, from_shapes);
  }
}

/// Reads the numbers of a transformer: from its tensors where there are any, then from its config.json where there is one, which is told
/// whether tensors were read before, and checks them. Throws a data Error where neither is there.
template <class Config>
Config detected(const nlohmann::json* config_json, const io::Shapes& shapes, void (*read_shapes)(Config&, const io::Shapes&),
                void (*read_config)(Config&, const nlohmann::json&, bool tensors), void (*check)(const Config&)) {
  Config config;
  const bool tensors = !shapes.empty();
  if (!tensors && !config_json) data_error("models", "neither config.json nor weights to read the transformer's size from");
  if (tensors) read_shapes(config, shapes);
  if (config_json) read_config(config, *config_json, tensors);
  check(config);
  return config;
}

/// Sizes of a transformer are at most this, and it has at most so many blocks.
inline constexpr int64_t kLargestSize = 1 << 20, kMostBlocks = 4096;

/// Throws a data Error unless every size of a transformer is from 1 to kLargestSize.
void check_sizes(std::initializer_list<int64_t> sizes);
/// Throws a data Error unless a transformer has from 1 to kMostBlocks blocks of every kind.
void check_blocks(std::initializer_list<int64_t> counts);
/// Splits a head among the axes of places in these proportions, on even numbers; the first axis has what is left over.
std::vector<int64_t> axes_in_proportion(int64_t head_dim, const std::vector<int64_t>& proportions);
/// Throws a data Error unless `count` even numbers share out a head among the axes of places. `key` is config.json's name for them.
void check_axes(const char* key, const std::vector<int64_t>& axes, size_t count, int64_t head_dim);

/// Returns four axes of places that share out a head evenly.
std::vector<int64_t> even_axes(int64_t head_dim);
/// Reads the places of a transformer whose heads have even_axes unless config.json says otherwise, and where no tensors were read before,
/// the width of its MLPs: three times its own unless config.json has another ratio.
template <class Config>
void read_even_axes(Config& c, const nlohmann::json& json, bool tensors) {
  if (!tensors) {
    double ratio = 3;
    io::take(json, "mlp_ratio", ratio, "transformer");
    c.hidden = static_cast<int64_t>(ratio * static_cast<double>(c.width()));
    c.axes_dims = even_axes(c.head_dim);
  }
  io::take(json, "axes_dims_rope", c.axes_dims, "transformer");
  io::take(json, "rope_theta", c.rope_theta, "transformer");
}
/// Throws a data Error for places that read_even_axes read and that cannot be.
template <class Config>
void check_even_axes(const Config& c) {
  check_axes("axes_dims_rope", c.axes_dims, 4, c.head_dim);
  if (!(c.rope_theta > 0)) data_error("models", "the transformer's config.json has rope_theta {}, which is above 0", c.rope_theta);
}

}  // namespace burnish::models
