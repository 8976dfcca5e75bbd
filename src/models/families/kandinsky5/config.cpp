#include "models/families/kandinsky5/config.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "models/files/config_values.h"

namespace burnish::models::kandinsky5 {

namespace {

constexpr const char *kPatchIn = "visual_embeddings.in_layer.weight", *kPatchOut = "out_layer.out_layer.weight",
                     *kHeadNorm = "visual_transformer_blocks.0.self_attention.query_norm.weight";
constexpr int64_t kPatchNumbers = 4;
constexpr Number<Config> kNumbers[] = {
    {&Config::width, kPatchIn, 0, "model_dim"},
    {&Config::hidden, "visual_transformer_blocks.0.feed_forward.in_layer.weight", 0, "ff_dim"},
    {&Config::time_width, "time_embeddings.out_layer.weight", 0, "time_dim"},
    {&Config::caption_width, "text_embeddings.in_layer.weight", 1, "in_text_dim"},
    {&Config::pooled_width, "pooled_text_embeddings.in_layer.weight", 1, "in_text_dim2"},
    {&Config::num_text_blocks, "text_transformer_blocks.{}.self_attention.query_norm.weight", 0, "num_text_blocks"},
    {&Config::num_blocks, "visual_transformer_blocks.{}.self_attention.query_norm.weight", 0, "num_visual_blocks"},
};
/// Widths of the transformers of the video models, Lite and Pro, whose names are the same.
constexpr int64_t kVideoWidths[] = {1792, 4096};

std::vector<int64_t> usual_axes(int64_t head_dim) { return axes_in_proportion(head_dim, {32, 48, 48}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.channels = io::side_of(shapes, kPatchOut, 0, "transformer") / kPatchNumbers;
  const auto num_in = io::side_of(shapes, kPatchIn, 1, "transformer");
  c.reads_picture = num_in == kPatchNumbers * (2 * c.channels + 1);
  if (num_in != kPatchNumbers * c.num_read())
    data_error(
        "models",
        "the transformer reads {} numbers of a patch and makes {}; as many were expected, as T2I Lite has them, or {}, as I2I Lite has",
        num_in, kPatchNumbers * c.channels, kPatchNumbers * (2 * c.channels + 1));
  c.axes_dims = usual_axes(io::side_of(shapes, kHeadNorm, 0, "transformer"));
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on(json, "in_visual_dim", c.channels, tensors);
  if (tensors) agree_on_known(json, "visual_cond", c.reads_picture);
  else io::take(json, "visual_cond", c.reads_picture, "transformer");
  agree_on_known(json, "out_visual_dim", c.channels);
  agree_on_known(json, "patch_size", std::vector<int64_t>{1, 2, 2});
  agree_on_known(json, "attention_type", std::string("regular"));
  const auto head_dim = c.head_dim();
  io::take(json, "axes_dims", c.axes_dims, "transformer");
  if (tensors) check_axes("axes_dims", c.axes_dims, 3, head_dim);
}

void check_config(const Config& c) {
  for (const auto width : kVideoWidths) {
    if (c.width == width)
      data_error("models",
                 "the transformer is {} wide, as those of Kandinsky 5's video models are; an Image Lite, which is 2560 wide, was expected: "
                 "take Kandinsky-5.0-T2I-Lite or -I2I-Lite",
                 c.width);
  }
  check_sizes({c.channels, c.width, c.head_dim(), c.hidden, c.time_width, c.caption_width, c.pooled_width});
  check_blocks({c.num_text_blocks, c.num_blocks});
  check_axes("axes_dims", c.axes_dims, 3, c.head_dim());
  if (c.width % c.head_dim() != 0)
    data_error("models", "the transformer's tokens are {} wide and its heads {}; a multiple was expected", c.width, c.head_dim());
}

}  // namespace

int64_t Config::head_dim() const { return std::accumulate(axes_dims.begin(), axes_dims.end(), int64_t{0}); }

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::kandinsky5
