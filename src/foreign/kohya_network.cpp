#include "foreign/kohya_network.h"

#include <algorithm>

#include "base/text.h"
#include "foreign/kohya_model.h"
#include "foreign/program.h"

namespace burnish::foreign::of_kohya {

namespace {

constexpr const char* kFileDecides = "the file of network_weights decides type, rank and alpha";

Outcome when_new(const Value& value, const Settings& all) {
  if (trains_whole(all)) return left_out("nothing but an adapter has it");
  return all.has("network_weights") ? left_out(kFileDecides) : carried(value);
}

Outcome adapter_type(const Value& module, const Settings& all) {
  if (all.has("network_weights")) return left_out("");
  auto name = text_of(module), algorithm = lower(all.text("network_args.algo", "lora"));
  if (!name.starts_with("lycoris")) {
    bool known = name == "networks.lora" || name.ends_with("lora_flux") || name.ends_with("lora_sd3") || name == "networks.lora_anima" ||
                 name.ends_with("networks.loha") || name.ends_with("networks.lokr");
    if (!known) return left_out("adapters here are lora, dora, loha and lokr");
    return carried(name.ends_with("loha") ? "loha" : name.ends_with("lokr") ? "lokr" : "lora");
  }
  if (algorithm == "lora" || algorithm == "locon") return carried(all.on("network_args.dora_wd") ? "dora" : "lora");
  if (algorithm == "diag-oft") return carried("oft");
  if (algorithm != "loha" && algorithm != "lokr" && algorithm != "full")
    return left_out("adapters here are lora, dora, loha and lokr, not " + algorithm);
  return carried(algorithm);
}

/// The rates of the text encoders that train. One without its own takes learning_rate, not the denoiser's; networks of SDXL have one for
/// both, the first of a list.
Outcome encoder_rates(const Value&, const Settings& all) {
  auto parts = text_encoders(all);
  const auto* list = all.find("text_encoder_lr");
  auto of_run = text_of(all.has("learning_rate") ? *all.find("learning_rate") : Value(2e-6));
  bool differs = all.has("unet_lr");
  std::vector<std::string> rates;
  for (const auto& part : parts) {
    const size_t number = part == "text_encoder" ? 0 : part == "text_encoder_2" ? 1 : 2;
    const auto counted = std::to_string(number + 1);
    const auto* own = all.find("text_encoder_lr" + counted);
    for (const auto& name : {"learning_rate_te" + counted, std::string("learning_rate_te")}) {
      if (!own && trains_whole(all)) own = all.find(name);
    }
    Value rate = of_run;
    if (own) rate = *own;
    else if (list && list->is_array() && !list->empty()) rate = (*list)[flows(all) && list->size() > number ? number : 0];
    else if (list && !list->is_array()) rate = *list;
    differs = differs || text_of(rate) != of_run;
    rates.push_back(part + "=" + text_of(rate));
  }
  return differs && !rates.empty() ? carried(join(rates, ",")) : left_out("");
}

Outcome given_rate(const Value& value, const Settings& all) {
  bool is_off = number_of(value) == 0.0 && !all.on("network_train_unet_only");
  if (!encoders_train(all)) return left_out(is_off ? "" : "the text encoders do not train");
  return of_optimizer(kohya_optimizer(), encoder_rates)(value, all);
}

/// The blocks of FLUX.1 that carry adapters.
Outcome blocks(const Value& value, const Settings& all) {
  const auto word = lower(text_of(value));
  if (word == "all" || !asks_for_something(value)) return left_out("");
  if ((word != "single" && word != "double") || kind_of(all) != "flux" || trains_whole(all) || encoders_train(all))
    return left_out("lora_target_modules says which layers carry adapters");
  return carried(std::string(word == "single" ? "single_" : "") + "transformer_blocks\\.[0-9]+\\..*");
}

constexpr int64_t kWholeLokr = 10000;  ///< a rank from which on LoKr's second factor is whole, as full_matrix has it

}  // namespace

void network_rows(Table& table) {
  table << rewritten("network_module", "lora_type", adapter_type);
  table << rewritten("network_module", "lora_format", [](const Value& value, const Settings& all) {
    if (all.has("network_weights")) return left_out("");
    return carried(text_of(value).starts_with("lycoris") ? "lycoris" : "kohya");
  });
  table << rewritten(
      "network_train_unet_only", "lora_base_model",
      [](const Value&, const Settings& all) { return trains_whole(all) ? left_out("") : carried(trained_parts(all), note_on_parts(all)); },
      false);
  table << rewritten(
      "train_text_encoder", "trainable_models",
      [](const Value&, const Settings& all) {
        return trains_whole(all) && !trains_word(all) ? carried(trained_parts(all), note_on_parts(all)) : left_out("");
      },
      false);
  table << rewritten(
      "network_dim", "lora_rank",
      [](const Value& value, const Settings& all) {
        bool is_whole = lower(all.text("network_args.algo")) == "lokr" && all.on("network_args.full_matrix");
        return trains_whole(all) ? left_out("") : when_new(is_whole ? Value(kWholeLokr) : value, all);
      },
      4);
  for (const char* name : {"train_blocks", "network_args.train_blocks"}) table << rewritten(name, "lora_target_modules", blocks);
  // Every linear layer of the blocks, those that modulate among them.
  table << rewritten("network_module", "lora_target_modules", [](const Value& value, const Settings& all) {
    const bool has_own = all.has("network_weights") || !text_of(value).ends_with("lora_sd3");
    return has_own || encoders_train(all) ? left_out("") : carried("transformer_blocks\\.[0-9]+\\..*");
  });
  table << rewritten(
      "network_alpha", "lora_alpha",
      [](const Value& value, const Settings& all) { return trains_whole(all) ? left_out("") : when_new(value, all); }, 1);
  table << rewritten("base_weights", "preset_lora_path", [](const Value& value, const Settings& all) {
    auto list = value.is_array() ? value : Value::array({value});
    const auto* strengths = all.find("base_weights_multiplier");
    for (size_t i = 0; strengths && i < list.size(); ++i) {
      if (!strengths->is_array()) list[i] = text_of(list[i]) + (i == 0 ? ":" + text_of(*strengths) : "");
      else if (i < strengths->size()) list[i] = text_of(list[i]) + ":" + text_of((*strengths)[i]);
    }
    return carried(list);
  });
  auto of_unet = [](const Value& value, const Settings& all) {
    return all.has("unet_lr") && !kohya_optimizer()(all).empty() ? encoder_rates(value, all) : left_out("");
  };
  table << rewritten("learning_rate", "text_encoder_lr", of_unet, 2e-6);
  for (const char* name : {"text_encoder_lr", "text_encoder_lr1", "text_encoder_lr2", "text_encoder_lr3", "learning_rate_te",
                           "learning_rate_te1", "learning_rate_te2", "learning_rate_te3"})
    table << rewritten(name, "text_encoder_lr", given_rate);
  table << rewritten("stop_text_encoder_training", "", [](const Value& value, const Settings& all) {
    auto steps = number_of(value).value_or(-1);
    bool stops = encoders_train(all) && steps >= 0 && (all.has("max_train_epochs") || steps < all.number("max_train_steps").value_or(1600));
    return left_out(stops ? "a text encoder trains to the end here; train so many steps with it, and go on without it from that file" : "");
  });
}

/// A word, its vectors and the captions that it stands in.
void inversion_rows(Table& table) {
  table << same("token_string", "embedding_token", "it is replaced as it stands, also within another word");
  table << rewritten("num_vectors_per_token", "embedding_length", [](const Value& value, const Settings& all) {
             return all.has("weights") ? left_out("") : carried(value);
           }).otherwise(Value());
  auto seen = [](const Value& value, const Settings&) {
    return asks_for_something(value)
               ? carried(".of-no-file",
                         "captions beside pictures are not read, and class_tokens says those that are drawn, which are of "
                         "the kind of sd-scripts' and not the very list")
               : left_out("");
  };
  table << rewritten("use_object_template", "caption_extension", seen) << rewritten("use_style_template", "caption_extension", seen);
}

}  // namespace burnish::foreign::of_kohya
