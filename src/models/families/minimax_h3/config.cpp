#include "models/families/minimax_h3/config.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "models/files/config_values.h"

namespace burnish::models::minimax_h3 {

namespace {

constexpr const char* kWhat = "transformer";
constexpr Number<Config> kNumbers[] = {
    {&Config::width, "proj_in.weight", 0, "hidden_size"},
    {&Config::num_layers, "transformer_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_refiner_layers, "token_refiner.refiner_blocks.{}.attn.norm_q.weight", 0, "num_refiner_layers"},
    {&Config::hidden, "transformer_blocks.0.ff.net.2.weight", 1, "ffn_dim"},
    {&Config::in_channels, nullptr, 0, "in_channels"},
    {&Config::audio_channels, "audio_proj_in.weight", 1, "audio_in_channels"},
    {&Config::caption_width, "context_embedder.weight", 1, "text_dim"},
};
constexpr Number<HeadSizes> kHeads[] = {
    {&HeadSizes::num, nullptr, 0, "num_attention_heads"},
    {&HeadSizes::dim, "transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
};
constexpr Number<TimeSizes> kTimes[] = {
    {&TimeSizes::channels, "time_embedder.linear_1.weight", 1, "freq_dim"},
    {&TimeSizes::hidden, "time_embedder.linear_1.weight", 0, "time_embed_hidden_dim"},
    {&TimeSizes::width, "time_embedder.linear_2.weight", 0, "time_embed_dim"},
};

constexpr Number<TimeSizes> kTable[] = {
    {&TimeSizes::num_rows, kTimeTable, 0, nullptr},
    {&TimeSizes::width, kTimeTable, 1, nullptr},
};

/// MiniMax-H3 turns 48 of the 64 pairs of a head of 128; other heads keep its proportions.
int64_t default_frequencies_of(int64_t head_dim) { return head_dim / 8; }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  read_tensors(c.heads, kHeads, shapes);
  if (shapes.contains(kTimeTable)) read_tensors(c.time, kTable, shapes);
  else read_tensors(c.time, kTimes, shapes);
  c.in_channels = io::side_of(shapes, "proj_in.weight", 1, kWhat) / 4;
  if (c.heads.dim > 0) c.heads.num = io::side_of(shapes, "transformer_blocks.0.attn.to_out.0.weight", 1, kWhat) / c.heads.dim;
  c.heads.num_frequencies = default_frequencies_of(c.heads.dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  read_keys(c.heads, kHeads, json, tensors);
  if (!c.time.is_table()) read_keys(c.time, kTimes, json, tensors);
  if (!tensors) c.heads.num_frequencies = default_frequencies_of(c.heads.dim);
  std::vector<int64_t> patch{1, 2, 2};
  io::take(json, "patch_size", patch, kWhat);
  if (patch != std::vector<int64_t>{1, 2, 2})
    data_error("models", "the transformer's config.json has the patch_size {}, and every MiniMax-H3 has [1,2,2]",
               nlohmann::json(patch).dump());
  io::take(json, "rope_freq_dim", c.heads.num_frequencies, kWhat);
  io::take(json, "rope_theta", c.heads.rope_theta, kWhat);
  io::take(json, "norm_eps", c.eps.tokens, kWhat);
  io::take(json, "qk_norm_eps", c.eps.heads, kWhat);
  io::take(json, "final_norm_eps", c.eps.last, kWhat);
}

void check_config(const Config& c) {
  check_sizes({c.width, c.heads.num, c.heads.dim, c.hidden, c.in_channels, c.audio_channels, c.caption_width, c.time.channels,
               c.time.hidden, c.time.width, c.heads.num_frequencies});
  check_blocks({c.num_layers, c.num_refiner_layers});
  if (6 * c.heads.num_frequencies > c.heads.dim)
    data_error("models", "rope_freq_dim {} turns {} numbers of a head along three axes, and heads have {}", c.heads.num_frequencies,
               6 * c.heads.num_frequencies, c.heads.dim);
  if (c.time.channels % 2 != 0)
    data_error("models", "the transformer's config.json or tensors give a time {} sinusoids; an even number was expected", c.time.channels);
  if (c.time.num_rows == 1) data_error("models", "'{}' has one row; a table of times from 0 to 1 has two or more", kTimeTable);
  if (!(c.heads.rope_theta > 0 && c.eps.tokens > 0 && c.eps.heads > 0 && c.eps.last > 0))
    data_error("models",
               "the transformer's config.json has rope_theta {}, norm_eps {}, qk_norm_eps {} and final_norm_eps {}, which are above 0 in "
               "every MiniMax-H3",
               c.heads.rope_theta, c.eps.tokens, c.eps.heads, c.eps.last);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::minimax_h3
