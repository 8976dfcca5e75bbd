#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/ai_toolkit_arrange.h"
#include "foreign/ai_toolkit_clips.h"
#include "foreign/ai_toolkit_course.h"
#include "foreign/ai_toolkit_h3.h"
#include "foreign/ai_toolkit_ltx.h"
#include "foreign/ai_toolkit_model.h"
#include "foreign/ai_toolkit_terms.h"
#include "foreign/ai_toolkit_words.h"
#include "foreign/row_files.h"

// Names and defaults: config/examples/ and toolkit/config_modules.py of ai-toolkit.
namespace burnish::foreign::of_ai_toolkit {

namespace {

bool is_lokr(const Settings& all) { return lower(all.text("network.type")) == "lokr"; }
bool is_whole_lokr(const Settings& all) { return is_lokr(all) && (!all.has("network.lokr_full_rank") || all.on("network.lokr_full_rank")); }
constexpr int64_t kWholeRank = 1000000;  ///< above every layer's sides, so that LoKr's second factor is whole

Outcome rank(const Value& value, const Settings& all) {
  if (!all.has("network.type")) return left_out("");
  if (all.has("network.pretrained_lora_path")) return left_out("");
  return is_whole_lokr(all) ? carried(kWholeRank) : carried(value);
}

/// alpha of what is no UNet is the rank, which is what a run takes by itself.
Outcome alpha(const Value& value, const Settings& all) {
  if (!all.has("network.type") || all.has("network.pretrained_lora_path") || is_whole_lokr(all)) return left_out("");
  if (has_unet(all)) return carried(value);
  auto of_rank = all.number("network.rank").value_or(all.number("network.linear").value_or(4));
  bool told = all.has("network.linear_alpha") || all.number("network.alpha").value_or(1) != 1;
  return carried(0.0, told && number_of(value) != of_rank ? "ai-toolkit takes the rank for models without a UNet, whatever this says" : "");
}

std::string bits(const Value& value) {
  auto word = lower(text_of(value));
  if (word == "bf16" || word == "bfloat16") return "bf16";
  if (word == "fp16" || word == "float16") return "fp16";
  return word == "fp32" || word == "float32" || word == "float" ? "fp32" : "";
}

Outcome dtype(const Value& value, const Settings& all) { return dtype_of_run(bits(value), flows(all) || trains_whole(all)); }

Outcome precision(const Value& value, const Settings&) {
  return bits(value).empty() ? left_out("a dtype is bf16, fp16 or fp32") : carried(bits(value));
}

/// Our format of a qtype; "" where there is none.
std::string format_of_qtype(const Settings& all) {
  const auto kind = lower(all.text("model.qtype", "qfloat8"));
  return kind == "qfloat8" || kind == "float8" ? "fp8" : kind == "convrot8" ? "int8_convrot" : kind == "qint8" ? "int8" : "";
}

Outcome quantized(const Value& value, const Settings& all) {
  if (!asks_for_something(value)) return left_out("");
  return !format_of_qtype(all).empty() ? carried(denoiser(all))
                                       : left_out("weights are stored in fp8, int8 or nf4 (fp8_models with weight_format), not in " +
                                                  lower(all.text("model.qtype", "qfloat8")));
}

Outcome quantized_format(const Value& value, const Settings& all) {
  const auto format = format_of_qtype(all);
  return asks_for_something(value) && !format.empty() && format != "fp8" ? carried(format) : left_out("");
}

/// Sides of squares: a picture keeps its shape below the area of each.
std::vector<int64_t> sides(const Value& value) {
  std::vector<int64_t> all;
  for (const auto& item : value.is_array() ? value : Value::array({value})) {
    auto number = number_of(item).value_or(0);
    if (number < 1 || number > 1e6) return {};
    all.push_back(std::lround(number));
  }
  return all;
}

bool has_several_sizes(const Settings& all) {
  const auto* resolution = all.find("dataset.resolution");
  return resolution != nullptr && sides(*resolution).size() > 1;
}

Outcome area(const Value& value, const Settings& all) {
  auto list = sides(value);
  if (list.empty()) return left_out("is no size");
  return has_several_sizes(all) ? left_out("") : carried(list[0] * list[0]);
}

Outcome if_several_sizes(const Value& value, const Settings& all) { return has_several_sizes(all) ? carried(value) : left_out(""); }

bool changes_pictures(const Value& arch) { return text_of(arch) == "boogu_image_edit"; }
bool reads_long_texts(const Value& arch) { return changes_pictures(arch) || text_of(arch) == "boogu_image"; }

void model_rows(Table& table) {
  table << of_ai_toolkit_experts().rows;
  table << rewritten("train.dtype", "dtype", dtype, "fp32") << rewritten("model.quantize", "fp8_models", quantized, false)
        << rewritten("model.quantize", "weight_format", quantized_format, false);
  table << switched("model.model_kwargs.edit", "extra_inputs", "edit_image").otherwise(false);
  table << rewritten("model.quantize_te", "", [](const Value& value, const Settings& all) {
    bool told = asks_for_something(value) && all.on("train.train_text_encoder");
    return left_out(told ? "text encoders that train are not stored in few bits" : "");
  });
  table << rewritten("model.assistant_lora_path", "preset_lora_path", [](const Value& value, const Settings&) {
    const auto place = text_of(value);
    std::error_code failed;
    const bool is_of_hub = std::ranges::count(place, '/') == 2 && place[0] != '/' && !std::filesystem::exists(place, failed);
    return carried(value, is_of_hub ? fmt::format("a file of a hub is fetched first (hf download {} {}) and named where it lies; previews "
                                                  "are drawn without it unless preview_with_presets",
                                                  place.substr(0, place.rfind('/')), place.substr(place.rfind('/') + 1))
                                    : "previews are drawn without it unless preview_with_presets");
  });
  table << kind_row("model.arch", {"sd",          "sd1",
                                   "sd15",        "sdxl",
                                   "flux",        "flux_kontext",
                                   "flux2",       "flux2_klein*",
                                   "qwen_image",  "qwen_image_edit*",
                                   "zimage",      "ernie_image",
                                   "chroma",      "krea2",
                                   "anima",       "ideogram4",
                                   "wan21*",      "wan22*",
                                   "minimax_h3*", "ltx2*",
                                   "boogu_image", "boogu_image_edit"});
  // It reads at most so many tokens of a text, and shows references at this area, where no setting says others.
  table << rewritten("model.arch", "max_sequence_length", [](const Value& value, const Settings& all) {
    return reads_long_texts(value) && !all.has("model.model_kwargs.max_text_length") ? carried(1024) : left_out("");
  });
  table << rewritten("model.arch", "extra_inputs",
                     [](const Value& value, const Settings&) { return changes_pictures(value) ? carried("edit_image") : left_out(""); });
  table << rewritten("model.arch", "reference_pixels", [](const Value& value, const Settings& all) {
    return changes_pictures(value) && !all.has("model.model_kwargs.control_image_max_pixels") ? carried(1024 * 1024) : left_out("");
  });
}

void network_rows(Table& table) {
  const std::map<std::string, std::string> kinds{{"lora", "lora"}, {"locon", "lora"}, {"lierla", "lora"}, {"c3lier", "lora"},
                                                 {"dora", "dora"}, {"lokr", "lokr"},  {"loha", "loha"}};
  table << words("network.type", "lora_type", kinds, "adapters here are lora, dora, loha and lokr");
  table << rewritten("network.type", "lora_base_model", [](const Value&, const Settings& all) { return carried(trained_parts(all)); });
  table << rewritten(
      "train.train_unet", "trainable_models",
      [](const Value&, const Settings& all) { return trains_whole(all) ? carried(trained_parts(all)) : left_out(""); }, true);
  auto of_file = [](const Convert& convert) {
    return [convert](const Value& value, const Settings& all) {
      return all.has("network.pretrained_lora_path") ? left_out("the file of pretrained_lora_path decides it") : convert(value, all);
    };
  };
  auto unless_rank = [](const Value& value, const Settings& all) { return all.has("network.rank") ? left_out("") : rank(value, all); };
  auto unless_linear = [](const Value& value, const Settings& all) {
    return all.has("network.linear_alpha") ? left_out("") : alpha(value, all);
  };
  table << rewritten("network.rank", "lora_rank", of_file(rank)) << rewritten("network.linear", "lora_rank", unless_rank, 4);
  table << rewritten("network.linear_alpha", "lora_alpha", of_file(alpha)) << rewritten("network.alpha", "lora_alpha", unless_linear, 1.0);
  table << rewritten("network.lokr_factor", "lokr_factor", only(is_lokr, same_value), -1);
}

/// Finds masks, in a column or in an alpha channel; null where there are none.
const char* masks_of(const Settings& all) {
  if (!all.text("dataset.mask_path", "").empty()) return "column";
  return all.on("dataset.alpha_mask") ? "alpha" : nullptr;
}

/// The rows of clips and masks.
void further_data_rows(Table& table) {
  table << of_ai_toolkit_clips().rows;
  table << rewritten("dataset.batch_size", "batch_size", [](const Value& value, const Settings& all) {
    return all.has("train.batch_size") ? left_out("batches of all datasets have train.batch_size samples") : carried(value);
  });
  table << rewritten("dataset.mask_min_value", "unmasked_weight", [](const Value& value, const Settings& all) {
             const bool has_masks = asks_for_something(value) && masks_of(all);
             return has_masks ? carried(value) : left_out("");
           }).otherwise(0.0);
}

void data_rows(Table& table) {
  table << rewritten("dataset.resolution", "max_pixels", area, 512) << rewritten("dataset.resolution", "resolution", if_several_sizes);
  auto buckets = [](const Value&, const Settings& all) { return if_several_sizes(true, all); };
  table << rewritten("dataset.resolution", "enable_bucket", buckets)
        << rewritten("dataset.resolution", "min_bucket_reso",
                     [](const Value& value, const Settings& all) {
                       return has_several_sizes(all) ? carried(std::ranges::min(sides(value)) / 2) : left_out("");
                     })
        << rewritten("dataset.resolution", "max_bucket_reso", [](const Value& value, const Settings& all) {
             return has_several_sizes(all) ? carried(std::ranges::max(sides(value)) * 2) : left_out("");
           });
  table << rewritten("dataset.bucket_tolerance", "bucket_reso_steps", if_several_sizes, 64);
  table
      << switched("dataset.flip_x", "random_flip", true, "half of the visits are mirrored; an epoch is no longer for it").otherwise(false);
  table << caption_ending_row("dataset.caption_ext").otherwise(".txt");
  table << rewritten("dataset.keep_tokens", "keep_tokens", [](const Value& value, const Settings&) {
             return carried(value, asks_for_something(value) ? "they keep their places too" : "");
           }).otherwise(0);
  for (const char* name : {"dataset.trigger_word", "trigger_word"}) {
    table << rewritten(name, "trigger_word", [](const Value& value, const Settings&) {
      return asks_for_something(value) ? carried(value, "a caption that caption_dropout leaves out stays empty") : left_out("");
    });
  }
  table << rewritten("dataset.default_caption", "class_tokens", given_caption)
        << rewritten("class_set_caption", "class_prompt", given_caption);
  table << rewritten("dataset.mask_path", "mask_folder",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  for (const char* name : {"dataset.mask_path", "dataset.alpha_mask"}) {
    table << rewritten(name, "masked_loss", [](const Value&, const Settings& all) {
      const auto* masks = masks_of(all);
      return masks ? carried(masks) : left_out("");
    });
  }
  further_data_rows(table);
}

void run_rows(Table& table) {
  table << rewritten("save.save_every", "save_steps", counted_in_batches, 1000);
  table << rewritten("save.dtype", "save_dtype", precision, "float16");
  table << rewritten("save.save_format", "", [](const Value& value, const Settings&) {
             auto format = text_of(value);
             return left_out(format == "safetensors" || format == "diffusers" ? "" : "files are safetensors");
           }).otherwise("safetensors");
  table << rewritten("sample.seed", "seed", [](const Value& value, const Settings& all) {
             return all.has("training_seed") ? left_out("")
                                             : carried(value, asks_for_something(value) ? "previews and training draw by one seed" : "");
           }).otherwise(0);
  table << ai_toolkit_slider_rows() << ai_toolkit_word_rows();
}

Table table() {
  Table table;
  table << rows_in("ai_toolkit", {{"discrete", [](const Settings& all) { return !flows(all); }}});
  table << h3_rows().rows << ltx_rows().rows;
  model_rows(table);
  network_rows(table);
  data_rows(table);
  train_rows(table);
  loss_rows(table);
  run_rows(table);
  return table;
}

}  // namespace

}  // namespace burnish::foreign::of_ai_toolkit

namespace burnish::foreign {

Program ai_toolkit() {
  using namespace of_ai_toolkit;
  return {"ai-toolkit", "ai-toolkit", recognises, arrange, table};
}

}  // namespace burnish::foreign
