#include "foreign/onetrainer_adapter.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/onetrainer_model.h"
#include "foreign/onetrainer_words.h"

namespace burnish::foreign::of_onetrainer {

namespace {

constexpr int64_t kWholeRank = 1000000;  ///< above every layer's sides, so that LoKr's second factor is whole

/// Our format for weights stored in few bits, "" for those that are not.
std::string format_of(const std::string& dtype) {
  if (dtype == "FLOAT_8") return "fp8_tensor";
  if (dtype == "FLOAT_W8A8") return "fp8";
  if (dtype == "INT_8" || dtype == "INT_W8A8") return "int8";
  return dtype == "NFLOAT_4" ? "nf4" : "";
}

std::string dtype_of(const Settings& all, const std::string& part) { return all.text(part + ".weight_dtype"); }

Outcome quantized_models(const Value& value, const Settings& all) {
  auto format = format_of(text_of(value));
  if (format.empty()) return left_out(bits(value).empty() && text_of(value) != "NONE" ? "weights are stored in fp8, int8 or nf4" : "");
  if (!is_lora(all)) return left_out("weights that train are not stored in few bits (trained_weights fp8 does that)");
  std::vector<std::string> parts{denoiser(all)};
  for (const char* part : kTextEncoders) {
    if (format_of(dtype_of(all, part)) == format) parts.emplace_back(part);
  }
  return carried(join(parts, ","));
}

Outcome quantized_format(const Value& value, const Settings& all) {
  auto format = format_of(text_of(value));
  return format.empty() || !is_lora(all) ? left_out("") : carried(format);
}

Outcome adapter_type(const Value& value, const Settings& all) {
  if (!is_lora(all) || from_file(all)) return left_out("");
  auto type = lower(text_of(value));
  if (type == "loha" || type == "lokr") return carried(type);
  if (type != "lora") return left_out("adapters here are lora, dora, loha and lokr");
  return carried(all.on("lora_decompose") ? "dora" : "lora");
}

Outcome when_new(const Value& value, const Settings& all) {
  if (!is_lora(all)) return left_out("");
  return from_file(all) ? left_out("the file of lora_model_name decides it") : carried(value);
}

std::string peft_type(const Settings& all) { return lower(all.text("peft_type", "LORA")); }

/// LoKr has a rank of its own, and none where its second factor is whole.
Outcome rank(const Value& value, const Settings& all) { return peft_type(all) == "lokr" ? left_out("") : when_new(value, all); }

Outcome rank_of_lokr(const Value& value, const Settings& all) {
  if (peft_type(all) != "lokr") return left_out("");
  return when_new(all.on("lokr_full_matrix") ? Value(kWholeRank) : value, all);
}

Convert of_lokr(const std::string& why) {
  return [why](const Value& value, const Settings& all) {
    return left_out(is_lora(all) && peft_type(all) == "lokr" && asks_for_something(value) ? why : "");
  };
}

/// An expression that is looked for in a name, as one for the whole name.
std::string found_anywhere(std::string expression) {
  bool from_start = expression.starts_with('^'), to_end = expression.ends_with('$') && !expression.ends_with("\\$");
  expression = expression.substr(from_start, expression.size() - from_start - to_end);
  return (from_start ? "(" : ".*(") + expression + (to_end ? ")" : ").*");
}

/// Parts of layer names as one expression, for a list of names would be ends of names here.
Outcome layers(const Value& value, const Settings& all) {
  if (!is_lora(all) || from_file(all)) return left_out("");
  auto filter = text_of(value);
  if (filter.empty())
    return all.text("layer_filter_preset", "full") == "full" ? carried("all-linear", has_unet(all) ? "convolutions carry no adapter" : "")
                                                             : left_out("");
  std::vector<std::string> parts;
  if (all.on("layer_filter_regex")) {
    for (const auto& expression : split_list(filter)) parts.push_back(found_anywhere(expression));
    return carried(parts.size() == 1 ? parts[0] : "(" + join(parts, "|") + ")");
  }
  for (const auto& name : split_list(filter)) {
    std::string escaped;
    for (char c : name) escaped += c == '.' ? std::string("\\.") : std::string(1, c);
    parts.push_back(escaped);
  }
  return carried(".*(" + join(parts, "|") + ").*");
}

}  // namespace

void model_rows(Table& table) {
  table << kind_row("model_type", {"stable_diffusion_15", "stable_diffusion_xl_10_base", "stable_diffusion_35", "flux_dev_1", "flux_2",
                                   "qwen", "z_image", "chroma_1", "krea_2", "anima", "ernie", "ideogram_4"});
  auto file = [](const Value& value, const Settings&) {
    if (text_of(value).starts_with("https://")) return left_out("fetch the file, and name it in model before the others");
    return asks_for_something(value) ? carried(value) : left_out("");
  };
  for (const char* name : {"vae.model_name", "unet.model_name", "transformer.model_name"}) table << rewritten(name, "model", file);
  table << same("base_model_name", "model").otherwise("stable-diffusion-v1-5/stable-diffusion-v1-5");
  table << rewritten("train_dtype", "dtype", dtype, "FLOAT_16");
  for (const char* name : {"unet.weight_dtype", "transformer.weight_dtype"}) {
    auto of_this = [part = std::string(name).substr(0, std::string(name).find('.'))](auto convert) {
      return [part, convert](const Value& value, const Settings& all) { return part == part_of(all) ? convert(value, all) : left_out(""); };
    };
    table << rewritten(name, "fp8_models", of_this(quantized_models)) << rewritten(name, "weight_format", of_this(quantized_format));
    for (const char* products : {"FLOAT_W8A8", "INT_W8A8"})
      table << rewritten(name, *products == 'F' ? "fp8_compute" : "int8_compute",
                         of_this([products](const Value& value, const Settings& all) {
                           return text_of(value) == products && is_lora(all) ? carried(true) : left_out("");
                         }));
  }
  auto encoder = [](const std::string& part) {
    return [part](const Value& value, const Settings& all) {
      auto format = format_of(text_of(value)), of_denoiser = format_of(dtype_of(all, part_of(all)));
      return left_out(format.empty() || format == of_denoiser ? "" : "all models that are stored in few bits have one weight_format");
    };
  };
  for (const std::string part : kTextEncoders) table << rewritten(part + ".weight_dtype", "", encoder(part));
  table << rewritten("transformer.guidance_scale", "embedded_guidance", unless(has_unet, same_value), 1.0);
  auto skipped = [](const Value& value, const Settings& all) {
    auto count = number_of(value).value_or(0), second = all.number("text_encoder_2_layer_skip").value_or(0);
    bool xl = lower(all.text("model_type")).find("diffusion_xl") != std::string::npos;
    if (count == 0 && (!xl || second == 0)) return left_out("");
    if (!has_unet(all)) return left_out("clip_skip is for SD 1.5 and SDXL");
    if (xl && count != second) return left_out("clip_skip is one for both text encoders");
    return carried(count + (xl ? 2 : 1));
  };
  table << rewritten("text_encoder_layer_skip", "clip_skip", skipped, 0);
  table << rewritten("text_encoder_2_layer_skip", "", [](const Value& value, const Settings& all) {
    bool xl = lower(all.text("model_type")).find("diffusion_xl") != std::string::npos;
    auto count = number_of(value).value_or(0);
    bool told = count != 0 && (!xl || count != all.number("text_encoder_layer_skip").value_or(0));
    return left_out(told ? "clip_skip is one for both text encoders, and for CLIP alone" : "");
  });
  auto read_by = [](std::vector<std::string> types) {
    return [types = std::move(types)](const Value& value, const Settings& all) {
      return contains(types, lower(all.text("model_type"))) ? carried(value) : left_out("");
    };
  };
  table << rewritten("text_encoder_sequence_length", "max_sequence_length", read_by({"flux_2"}), 512);
  table << rewritten("model_type", "max_sequence_length",
                     [](const Value&, const Settings& all) { return has_third_encoder(all) ? carried(77) : left_out(""); });
  table << rewritten("text_encoder_2_sequence_length", "max_sequence_length", read_by({"flux_dev_1"}), 77);
}

void adapter_rows(Table& table) {
  table << rewritten("peft_type", "lora_type", adapter_type, "LORA");
  table << rewritten(
      "lora_decompose_output_axis", "dora_norm",
      [](const Value& value, const Settings& all) {
        bool dora = is_lora(all) && all.on("lora_decompose") && !from_file(all);
        return dora ? carried(asks_for_something(value) ? "output" : "input") : left_out("");
      },
      false);
  table << rewritten("training_method", "lora_base_model",
                     [](const Value&, const Settings& all) { return is_lora(all) ? carried(trained_parts(all)) : left_out(""); });
  table << rewritten(
      "training_method", "trainable_models",
      [](const Value& value, const Settings& all) {
        if (is_lora(all)) return left_out("");
        if (is_embedding(all)) return left_out("");
        return text_of(value) == "FINE_TUNE" ? carried(trained_parts(all)) : left_out("models train whole or under adapters");
      },
      "FINE_TUNE");
  table << rewritten("lora_model_name", "lora_checkpoint",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  table << rewritten("lora_rank", "lora_rank", rank, 16) << rewritten("lokr_dim", "lora_rank", rank_of_lokr, 16);
  table << rewritten("lora_alpha", "lora_alpha", when_new, 1.0);
  table << rewritten("dropout_probability", "lora_dropout", only(is_lora, same_value), 0.0);
  table << rewritten("layer_filter", "lora_target_modules", layers, "");
  table << rewritten(
      "lokr_decompose_factor", "lokr_factor",
      [](const Value& value, const Settings& all) { return peft_type(all) == "lokr" ? when_new(value, all) : left_out(""); }, -1);
  table << rewritten("lokr_decompose_both", "", of_lokr("the first factor of LoKr is whole here")).otherwise(false);
  table << rewritten("lokr_use_tucker", "", of_lokr("kernels of convolutions are not in Tucker form here")).otherwise(false);
  table << rewritten("lokr_weight_decompose", "", of_lokr("DoRA is on LoRA alone")).otherwise(false);
  table << rewritten("lora_weight_dtype", "", [](const Value& value, const Settings& all) {
             return left_out(
                 !is_lora(all) || bits(value) == "fp32" ? "" : "adapters are kept in fp32 (trained_weights says how bf16 is rounded)");
           }).otherwise("FLOAT_32");
  for (const char* name : {"oft_block_size", "oft_block_share", "oft_scaled"})
    table << rewritten(name, "", [](const Value&, const Settings& all) {
      return left_out(is_lora(all) && peft_type(all) == "oft_2" ? "a number of an adapter that is not carried" : "");
    });
}

}  // namespace burnish::foreign::of_onetrainer
