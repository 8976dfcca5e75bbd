// Units between the columns of extra_inputs and what the transformer takes. Formulas: DiffSynth-Studio, pipelines/flux_image.py.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/text.h"
#include "models/families/flux/extras.h"

namespace burnish::models::flux {

namespace {

using pipeline::Scope;
using pipeline::Unit;

/// Of FLEX.2's control picture, as DiffSynth-Studio draws with it.
constexpr double kFlexStrength = 0.5;

/// Each block of side² pixels as that many channels: [H, W] -> [side², H/side, W/side].
at::Tensor blocks_as_channels(const at::Tensor& x_HW, int64_t side) {
  auto rows = x_HW.size(0) / side, columns = x_HW.size(1) / side;
  return x_HW.reshape({rows, side, columns, side}).permute({1, 3, 0, 2}).reshape({side * side, rows, columns});
}

/// The texts of a column whose cell is a list of them in JSON, or one alone.
std::vector<std::string> texts_in(Scope& s, const std::string& column) {
  const auto& cell = s.text(column);
  auto json = nlohmann::json::parse(cell, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return {cell};
  std::vector<std::string> texts;
  for (const auto& text : json) {
    if (!text.is_string())
      data_error("models", "the column '{}' holds {}, and a text or a list of texts was expected", column, text.dump());
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

/// The LoRA of a file; of the plan of a run without samples, one of a usual rank.
std::vector<LoraPair> lora_of(const std::string& path, const LoraEncoder::Config& config, const Config& transformer, c10::Device device) {
  constexpr int64_t kUsualRank = 16;
  if (!path.empty() || !device.is_meta()) return read_lora_pairs(path, config, transformer);
  std::vector<LoraPair> pairs;
  for (const auto& layer : config.layers) pairs.push_back({at::zeros({kUsualRank, layer.in}), at::zeros({layer.out, kUsualRank})});
  return pairs;
}

/// Channels of Fill: the latents of what is kept, and the mask itself.
at::Tensor fill_channels(Scope& s, const Extras::Encoding& encoding) {
  const auto& mask_3HW = picture_of(s, "flux_fill_mask");
  auto luma = mask_3HW[0] * 0.299 + mask_3HW[1] * 0.587 + mask_3HW[2] * 0.114;
  auto mask_HW = (luma >= 0).to(mask_3HW.scalar_type());
  auto kept = picture_of(s, "flux_fill_image") * (1 - mask_HW);
  auto latents = encoding.encode(kept.unsqueeze(0)).mean_BCHW;
  return at::cat({latents, blocks_as_channels(mask_HW, encoding.downsampling).unsqueeze(0).to(latents.options())}, 1);
}

/// Channels of FLEX.2: the latents of what is kept, the mask, and the latents of a control picture.
at::Tensor flex_channels(Scope& s, const Extras::Encoding& encoding, const std::vector<std::string>& columns) {
  auto latents_of = [&](const char* column) {
    return contains(columns, column) ? encoding.encode(picture_of(s, column).unsqueeze(0)).mean_BCHW : at::Tensor();
  };
  auto kept = latents_of("flex_inpaint_image"), control = latents_of("flex_control_image");
  auto any = kept.defined() ? kept : control;
  at::Tensor mask;
  if (contains(columns, "flex_inpaint_mask")) {
    const auto& picture = picture_of(s, "flex_inpaint_mask");
    auto small = resized_bicubic(picture, picture.size(1) / encoding.downsampling, picture.size(2) / encoding.downsampling);
    mask = ((small.narrow(0, 0, 1) + 1) / 2).unsqueeze(0);
  } else {
    mask = at::ones({1, 1, any.size(2), any.size(3)});
  }
  if (!any.defined()) any = encoding.encode(picture_of(s, "flex_inpaint_mask").unsqueeze(0)).mean_BCHW;
  mask = mask.to(any.options());
  kept = kept.defined() ? kept * (1 - mask) : at::zeros_like(any);
  return at::cat({kept, mask, control.defined() ? control * kFlexStrength : at::zeros_like(any)}, 1);
}

/// Of each mask, which of the target's tokens it touches [1, N, I].
at::Tensor covered_tokens(const std::vector<at::Tensor>& masks, int64_t downsampling) {
  std::vector<at::Tensor> covered;
  for (const auto& mask_3HW : masks) {
    auto at_latents = every_nth(white_of(mask_3HW), downsampling / 2, downsampling);
    covered.push_back(blocks_as_channels(at_latents, 2).amax(0).flatten());
  }
  return at::stack(covered).unsqueeze(0);
}

/// The bias of attention under which an entity's text and the picture see each other where its mask is, the prompt's text and the whole
/// picture do, and texts do not see each other. cover [B, N, I] -> [B, 1, L, L].
at::Tensor entity_bias(const at::Tensor& cover_BNI, int64_t num_entity_text, int64_t num_prompt, c10::ScalarType dtype) {
  auto B = cover_BNI.size(0), N = cover_BNI.size(1), I = cover_BNI.size(2), each = num_entity_text / N, T = num_entity_text + num_prompt;
  auto options = cover_BNI.options();
  std::vector<at::Tensor> text_to_image, text_to_text;
  for (int64_t i = 0; i <= N; ++i) {
    auto length = i < N ? each : num_prompt, before = i * each;
    text_to_image.push_back((i < N ? cover_BNI.narrow(1, i, 1) : at::ones({B, 1, I}, options)).expand({B, length, I}));
    text_to_text.push_back(at::cat(
        {at::zeros({length, before}, options), at::ones({length, length}, options), at::zeros({length, T - before - length}, options)}, 1));
  }
  auto ti = at::cat(text_to_image, 1);
  auto tt = at::cat(text_to_text, 0).unsqueeze(0).expand({B, T, T});
  auto seen = at::cat({at::cat({tt, ti}, 2), at::cat({ti.transpose(1, 2), at::ones({B, I, I}, options)}, 2)}, 1);
  auto hidden = at::full({}, -std::numeric_limits<double>::infinity(), options);
  return at::where(seen > 0, at::zeros({}, options), hidden).unsqueeze(1).to(dtype);
}

}  // namespace

pipeline::Units Extras::channel_units(const Encoding& encoding) const {
  pipeline::Units units;
  if (fills())
    units.push_back({"encode_fill", {"flux_fill_image", "flux_fill_mask"}, {"further_channels"}, {"vae"}, [encoding](Scope& s) {
                       s.uses("vae");
                       s.write("further_channels", fill_channels(s, encoding));
                     }});
  if (flexes()) {
    std::vector<std::string> columns;
    for (const char* column : {"flex_inpaint_image", "flex_inpaint_mask", "flex_control_image"}) {
      if (has(column)) columns.emplace_back(column);
    }
    units.push_back({"encode_flex", columns, {"further_channels"}, {"vae"}, [encoding, columns](Scope& s) {
                       s.uses("vae");
                       s.write("further_channels", flex_channels(s, encoding, columns));
                     }});
  }
  return units;
}

pipeline::Units Extras::control_picture_units(const Encoding& encoding) const {
  pipeline::Units units;
  if (!has("controlnet_image")) return units;
  bool inpaints = has("controlnet_inpaint_mask"), has_modes = has("controlnet_processor_id");
  Unit unit{"encode_control", {"controlnet_image"}, {"control_latents"}, {"vae"}};
  if (inpaints) unit.reads.emplace_back("controlnet_inpaint_mask");
  unit.run = [encoding, inpaints](Scope& s) {
    s.uses("vae");
    auto mask = inpaints ? picture_of(s, "controlnet_inpaint_mask") : at::Tensor();
    auto encode = [&](const at::Tensor& image) { return encoding.encode(image).mean_BCHW; };
    s.write("control_latents", control_latents(picture_of(s, "controlnet_image"), mask, encoding.downsampling, encode));
  };
  units.push_back(unit);
  auto count = control_config_.num_modes;
  if (has_modes)
    units.push_back({"read_control_mode", {"controlnet_processor_id"}, {"control_mode"}, {}, [count](Scope& s) {
                       s.write("control_mode", at::full({1}, control_mode(s.text("controlnet_processor_id"), count), at::kLong));
                     }});
  return units;
}

pipeline::Units Extras::encode_units(Components& components, const Encoding& encoding) const {
  pipeline::Units units = channel_units(encoding);
  for (auto& unit : control_picture_units(encoding)) units.push_back(std::move(unit));
  auto features = [this, &components](Scope& s, const char* column) {
    s.uses(kImageEncoder);
    auto& encoder = static_cast<SiglipVision&>(components.module(kImageEncoder));
    auto side = encoder.config().image_size;
    std::vector<at::Tensor> pictures;
    for (const auto& picture : s.lists(column).at(0)) pictures.push_back(resized_bicubic(picture, side, side));
    return encoder.forward(at::stack(pictures).to(options_.device, options_.dtype));
  };
  if (has("ipadapter_images"))
    units.push_back({"encode_ipadapter_images", {"ipadapter_images"}, {"ipadapter_features"}, {kImageEncoder}, [features](Scope& s) {
                       s.write("ipadapter_features", features(s, "ipadapter_images").pooled_BE.unsqueeze(0));
                     }});
  if (has("eligen_entity_prompts"))
    units.push_back({"encode_entities",
                     {"eligen_entity_prompts", "eligen_entity_masks"},
                     {"entity_text", "entity_cover"},
                     {encoding.text_encoder},
                     [encoding](Scope& s) {
                       auto prompts = texts_in(s, "eligen_entity_prompts");
                       const auto& masks = s.lists("eligen_entity_masks").at(0);
                       if (prompts.size() != masks.size())
                         data_error("models",
                                    "a sample has {} eligen_entity_prompts and {} eligen_entity_masks; each prompt needs its mask",
                                    prompts.size(), masks.size());
                       s.uses(encoding.text_encoder);
                       std::vector<at::Tensor> texts;
                       for (const auto& prompt : prompts) texts.push_back(encoding.encode_text(prompt));
                       s.write("entity_text", at::cat(texts, 1));
                       s.write("entity_cover", covered_tokens(masks, encoding.downsampling));
                     }});
  if (has("value_controller_inputs"))
    units.push_back(
        {"encode_values", {"value_controller_inputs"}, {"value_text"}, {kValueController}, [this, &components](Scope& s) {
           s.uses(kValueController);
           auto value_BN = s.tensor("value_controller_inputs").to(options_.device);
           if (value_BN.size(1) != 1)
             data_error("models", "a sample has {} value_controller_inputs, and there is one value controller", value_BN.size(1));
           s.write("value_text", static_cast<ValueEncoder&>(components.module(kValueController)).forward(value_BN.select(1, 0)));
         }});
  for (auto& unit : face_units(components)) units.push_back(std::move(unit));
  if (has("lora_encoder_inputs"))
    units.push_back({"encode_lora", {"lora_encoder_inputs"}, {"lora_text"}, {kLoraEncoder}, [this, &components](Scope& s) {
                       s.uses(kLoraEncoder);
                       auto& encoder = static_cast<LoraEncoder&>(components.module(kLoraEncoder));
                       std::vector<at::Tensor> tokens;
                       for (const auto& path : texts_in(s, "lora_encoder_inputs"))
                         tokens.push_back(encoder.forward(lora_of(path, lora_config_, dit_, options_.device)));
                       s.write("lora_text", at::cat(tokens, 1));
                     }});
  return units;
}

pipeline::Units Extras::face_units(Components& components) const {
  pipeline::Units units;
  if (has("infinityou_id_image"))
    units.push_back({"encode_face", {"infinityou_id_image"}, {"face_text"}, {kFaceProjector}, [this, &components](Scope& s) {
                       s.uses(kFaceProjector);
                       const auto& face_BF = s.tensor("infinityou_id_image");
                       if (face_BF.size(1) != face_config_.num_features)
                         data_error("models",
                                    "an infinityou_id_image holds {} numbers of a face, and {} were expected: what ArcFace makes of it",
                                    face_BF.size(1), face_config_.num_features);
                       const auto& projector = static_cast<FaceProjector&>(components.module(kFaceProjector));
                       s.write("face_text", projector.forward(face_BF.to(options_.device, options_.dtype)));
                     }});
  if (has("infinityou_guidance"))
    units.push_back({"read_face_guidance", {"infinityou_guidance"}, {"face_guidance"}, {}, [](Scope& s) {
                       const auto& value_BN = s.tensor("infinityou_guidance");
                       if (value_BN.size(1) != 1)
                         data_error("models", "a sample has {} numbers of infinityou_guidance, and one was expected", value_BN.size(1));
                       s.write("face_guidance", value_BN.select(1, 0));
                     }});
  return units;
}

pipeline::Units Extras::prompt_units(Components& components, const Encoding& encoding) const {
  if (!has("flux_redux_image")) return {};
  return {{"encode_redux",
           {"flux_redux_image"},
           {"text_embedding", "pooled_embedding"},
           {kImageEncoder, kRedux},
           [this, &components, encoding](Scope& s) {
             s.uses(kImageEncoder);
             s.uses(kRedux);
             auto& encoder = static_cast<SiglipVision&>(components.module(kImageEncoder));
             auto side = encoder.config().image_size;
             auto image = resized_bicubic(picture_of(s, "flux_redux_image"), side, side).unsqueeze(0);
             auto states = encoder.forward(image.to(options_.device, options_.dtype)).tokens_BLE;
             auto tokens = static_cast<Redux&>(components.module(kRedux)).forward(states);
             s.write("text_embedding", at::cat({at::zeros({1, encoding.text_length, tokens.size(2)}, tokens.options()), tokens}, 1));
             s.write("pooled_embedding", at::zeros({1, dit_.pooled_projection_dim}, tokens.options()));
           }}};
}

pipeline::Units Extras::control_units(Components& components, const ConditionsOf& conditions) const {
  if (!has("controlnet_image")) return {};
  bool has_modes = has("controlnet_processor_id"), has_guidance = has("infinityou_guidance");
  const std::string text = has("infinityou_id_image") ? "face_text" : "text_embedding";
  Unit unit{"control", {"noisy", "sigma", "pooled_embedding", text, "control_latents"}, {"control_residuals"}, {kControlNet}};
  if (has_guidance) unit.reads.emplace_back("face_guidance");
  if (has_modes) unit.reads.emplace_back("control_mode");
  unit.run = [this, &components, conditions, has_modes, has_guidance, text](Scope& s) {
    s.uses(kControlNet);
    const auto& noisy = s.tensor("noisy");
    ControlNet::Inputs in{.conditions = conditions(s),
                          .latents_BIC = mmdit::to_tokens(noisy).to(options_.dtype),
                          .control_BIC = mmdit::to_tokens(s.tensor("control_latents")).to(options_.device, options_.dtype),
                          .text_BTE = s.tensor(text).to(options_.device, options_.dtype),
                          .grid = {noisy.size(2) / 2, noisy.size(3) / 2}};
    if (has_guidance) in.conditions.guidance_B = s.tensor("face_guidance").to(options_.device, at::kFloat);
    if (has_modes) in.mode_B = s.tensor("control_mode").to(options_.device);
    s.write("control_residuals", static_cast<ControlNet&>(components.module(kControlNet)).forward(in));
  };
  return {unit};
}

std::vector<std::string> Extras::reads() const {
  std::vector<std::string> reads;
  if (fills() || flexes()) reads.emplace_back("further_channels");
  if (has("controlnet_image")) reads.emplace_back("control_residuals");
  if (has("ipadapter_images")) reads.emplace_back("ipadapter_features");
  if (has("eligen_entity_prompts")) reads.insert(reads.end(), {"entity_text", "entity_cover"});
  if (has("value_controller_inputs")) reads.emplace_back("value_text");
  if (has("lora_encoder_inputs")) reads.emplace_back("lora_text");
  return reads;
}

std::vector<std::string> Extras::models() const {
  return has("ipadapter_images") ? std::vector<std::string>{kIpAdapter} : std::vector<std::string>{};
}

at::Tensor Extras::channels(Scope& scope, const at::Tensor& noisy) const {
  if (fills() || flexes()) return scope.tensor("further_channels").to(noisy.options());
  auto B = noisy.size(0), h = noisy.size(2), w = noisy.size(3);
  auto nothing = at::zeros_like(noisy);
  auto all = [&](int64_t channels) { return at::ones({B, channels, h, w}, noisy.options()); };
  if (editing_ == Editing::fill) return at::cat({nothing, all((dit_.in_channels - 2 * dit_.out_channels) / 4)}, 1);
  if (editing_ == Editing::flex) return at::cat({nothing, all(1), nothing}, 1);
  return {};
}

void Extras::give(Components& components, Scope& scope, Transformer::Inputs& in) const {
  auto as_model = [&](const char* name) { return scope.tensor(name).to(options_.device, options_.dtype); };
  if (has("value_controller_inputs")) in.text_BTE = at::cat({in.text_BTE, as_model("value_text")}, 1);
  if (has("lora_encoder_inputs")) in.text_BTE = at::cat({in.text_BTE, as_model("lora_text")}, 1);
  mmdit::Further for_all;
  if (has("eligen_entity_prompts")) {
    auto texts = as_model("entity_text");
    for_all.bias = entity_bias(as_model("entity_cover"), texts.size(1), in.text_BTE.size(1), options_.dtype);
    in.text_BTE = at::cat({texts, in.text_BTE}, 1);
  }
  if (has("ipadapter_images")) {
    scope.uses(kIpAdapter);
    const auto& adapter = static_cast<IpAdapter&>(components.module(kIpAdapter));
    in.further = [&adapter, tokens = adapter.tokens(as_model("ipadapter_features")), for_all](int64_t block) {
      auto keys = adapter.keys_and_values(block, tokens);
      return mmdit::Further{for_all.bias, keys[0], keys[1]};
    };
  } else if (for_all.bias.defined()) {
    in.further = [for_all](int64_t) { return for_all; };
  }
  if (has("controlnet_image"))
    in.after_block = [this, residuals = scope.tensor("control_residuals")](int64_t block, const at::Tensor& image_BID) {
      auto residual = residual_for(block, dit_, control_config_.trunk, residuals);
      return residual.defined() ? image_BID + residual : residual;
    };
}

}  // namespace burnish::models::flux
