#include "models/refused_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "io/model_values.h"
#include "models/files/coding.h"
#include "models/parts/find_components.h"

namespace burnish::models {

namespace {

constexpr std::string_view kDoubleMark = "transformer_blocks.0.norm1_context.linear.weight",
                           kSingleMark = "single_transformer_blocks.0.norm.linear.weight", kPlacesMark = "pos_embed.pos_embed",
                           kTimeMark = "condition_embedder.time_proj.weight",
                           kTimeAloneMark = "time_embed.timestep_embedder.linear_1.weight", kPadMark = "x_pad_token",
                           kApproximatorMark = "distilled_guidance_layer.in_proj.weight",
                           kTextModulationMark = "transformer_blocks.0.txt_mod.1.weight", kHeadTableMark = "head.modulation",
                           kTextNormMark = "blocks.0.pre_crs_attn_norm.weight";

// Facts: the classes of diffusers, ComfyUI's model_detection.py, ai-toolkit's models.
const std::vector<LookAlike> kLookAlikes{
    {.name = "AuraFlow", .classes = {"AuraFlowTransformer2DModel"}, .has = {{"register_tokens"}, {kPlacesMark}}, .taken_by = kPlacesMark},
    {.name = "HunyuanVideo or HunyuanImage",
     .classes = {"HunyuanVideoTransformer3DModel", "HunyuanVideo15Transformer3DModel", "HunyuanVideoFramepackTransformer3DModel",
                 "HunyuanImageTransformer2DModel"},
     .has = {{"context_embedder.token_refiner.refiner_blocks.0.norm1.weight"}},
     .taken_by = kDoubleMark},
    {.name = "HunyuanVideo or HunyuanImage", .has = {{"txt_in.individual_token_refiner.blocks.0.norm1.weight"}}},
    {.name = "Mochi", .classes = {"MochiTransformer3DModel"}, .has = {{"time_embed.pooler.to_kv.weight"}}, .taken_by = kDoubleMark},
    {.name = "Motif-Video",
     .classes = {"MotifVideoTransformer3DModel"},
     .has = {{"context_embedder.linear_1.weight"}, {kSingleMark}},
     .taken_by = kSingleMark},
    {.name = "FIBO",
     .classes = {"BriaFiboTransformer2DModel"},
     .has = {{"caption_projection.0.linear.weight"}, {kSingleMark}},
     .taken_by = kSingleMark},
    {.name = "Bria",
     .classes = {"BriaTransformer2DModel"},
     .has = {{"context_embedder.weight", 1, 4096}, {kTimeAloneMark}, {kSingleMark}},
     .taken_by = kTimeAloneMark},
    {.name = "Ovis-Image",
     .classes = {"OvisImageTransformer2DModel"},
     .has = {{"context_embedder_norm.weight"}, {kSingleMark}},
     .taken_by = kSingleMark},
    {.name = "AnyFlow",
     .classes = {"AnyFlowTransformer3DModel", "AnyFlowFARTransformer3DModel"},
     .has = {{"condition_embedder.delta_embedder.linear_1.weight"}},
     .taken_by = kTimeMark},
    {.name = "Helios", .classes = {"HeliosTransformer3DModel"}, .has = {{"patch_short.weight"}, {kTimeMark}}, .taken_by = kTimeMark},
    {.name = "JoyImage",
     .classes = {"JoyImageEditTransformer3DModel", "JoyImageEditPlusTransformer3DModel"},
     .has = {{"double_blocks.0.img_mod.modulate_table"}},
     .taken_by = kTimeMark},
    {.name = "SkyReels-V2", .classes = {"SkyReelsV2Transformer3DModel"}, .taken_by = kTimeMark},
    {.name = "ChronoEdit", .classes = {"ChronoEditTransformer3DModel"}, .taken_by = kTimeMark},
    {.name = "SCAIL-Preview", .has = {{"patch_embedding_pose.weight"}}, .lacks = "patch_embedding_mask.weight", .taken_by = kHeadTableMark},
    {.name = "LongCat-Video-Avatar",
     .classes = {"LongCatVideoAvatarTransformer3DModel"},
     .has = {{"blocks.0.audio_adaLN_modulation.1.weight"}, {kTextNormMark}},
     .taken_by = kTextNormMark},
    {.name = "Chroma Radiance", .has = {{"nerf_blocks.0.norm.scale"}}, .taken_by = kApproximatorMark},
    {.name = "Z-Image pixel or Zeta-Chroma", .has = {{"dec_net.cond_embed.weight"}}, .taken_by = kPadMark},
    {.name = "Ming-Image", .has = {{"__ming_image__"}}},
    {.name = "Ming-Image",
     .classes = {"DiffusionTransformer"},
     .has = {{"cap_embedder.1.weight", 0, 3840}},
     .lacks = "cap_pad_token",
     .taken_by = kPadMark},
    {.name = "Mage-Flow",
     .has = {{"txt_norm.weight", 0, 2560}, {"proj_out.weight", 0, 128}, {kTextModulationMark}},
     .taken_by = kTextModulationMark},
    {.name = "Lens", .has = {{"txt_norm.0.weight"}, {"img_in.weight"}}, .taken_by = kTextModulationMark},
    {.name = "OmniGen2",
     .classes = {"OmniGen2Transformer2DModel"},
     .has = {{"image_index_embedding"}, {"ref_image_patch_embedder.weight"}},
     .lacks = "double_stream_layers.0.img_self_attn.norm_q.weight"},
};

bool holds(const io::TensorSource& tensors, const Mark& mark) {
  const std::string name(mark.tensor);
  if (!tensors.contains(name)) return false;
  const auto& shape = tensors.info(name).shape;
  return mark.length == 0 || (mark.dim < shape.size() && shape[mark.dim] == mark.length);
}

bool is_told(const LookAlike& model, const ModelEntry& entry) {
  const auto stated = io::class_name(entry.config);
  if (!stated.empty()) return std::ranges::find(model.classes, stated) != model.classes.end();
  if (model.has.empty() || !entry.tensors) return false;
  for (const auto& prefix : kDenoiserPrefixes) {
    auto tensors = find_below(entry, {prefix}, std::string(model.has.front().tensor));
    if (!tensors || (!model.lacks.empty() && tensors->contains(std::string(model.lacks)))) continue;
    if (std::ranges::all_of(model.has, [&](const Mark& mark) { return holds(*tensors, mark); })) return true;
  }
  return false;
}

/// Endings of tensors' names that stand beside weights packed in one way alone.
struct Packing {
  std::string_view ending, name;
};
constexpr Packing kPackings[] = {{".weight_scale_2", "NVFP4"},
                                 {".weight_scale_inv", "FP8 with a scale for each block of rows and columns"},
                                 {".weight_s_rel", "4-bit codes around zeros of their own (W4A8)"},
                                 {".weight_codebook", "4-bit codes that nothing marks (W4A8)"},
                                 {".wscales", "SVDQuant"},
                                 {".proj_down", "SVDQuant"},
                                 {".qweight", "packed integers (GPTQ, AWQ or SVDQuant)"},
                                 {".weight._scale", "quanto's tensors of few bits"},
                                 {"._weight_scale", "torchao's tensors of few bits"},
                                 {".weight.qdata", "torchao's tensors"},
                                 {".svd_up", "SDNQ's tensors"},
                                 {".zero_point", "SDNQ's tensors"},
                                 {".pre_quant_scale", "NVFP4 with scaled inputs (AWQ)"}};
/// Reads what a layer's mark in ComfyUI's files says: its format, where that is none that is read.
std::string unread_format(const nlohmann::json& said) {
  const auto format = format_of(said);
  if (format == "float8_e4m3fn" || format == "float8_e5m2") return "";
  if (format == "int8_tensorwise" || format == "mxfp8" || format == "nvfp4" || format == "convrot_w4a4" || format == "asym_w4a8_int8")
    return "";
  return format;
}

std::string packing_by_marks(const io::TensorSource& tensors) {
  for (const auto& [layer, mark] : MarkedFiles(tensors).marks) {
    if (auto format = unread_format(mark); !format.empty()) return fmt::format("{} ('{}')", format, layer);
  }
  return "";
}

/// Tells whether what stands beside a tensor as its layer's weight is whole numbers of eight bits.
bool is_int8(const io::TensorSource& tensors, const std::string& beside) {
  const auto weight = beside.substr(0, beside.rfind('.')) + ".weight";
  return tensors.contains(weight) && tensors.info(weight).dtype == at::kChar;
}

}  // namespace

const std::vector<LookAlike>& look_alikes() { return kLookAlikes; }

const LookAlike* look_alike_in(const ModelEntry& entry) {
  auto found = std::ranges::find_if(kLookAlikes, [&](const LookAlike& model) { return is_told(model, entry); });
  return found != kLookAlikes.end() ? &*found : nullptr;
}

std::string unread_packing(const ModelEntry& entry) {
  if (!entry.tensors || entry.is_sizes) return "";
  const auto names = entry.tensors->names();
  for (const auto& name : names) {
    for (const auto& packing : kPackings) {
      if (name.ends_with(packing.ending)) return fmt::format("{} ('{}')", packing.name, name);
    }
  }
  if (auto said = packing_by_marks(*entry.tensors); !said.empty()) return said;
  for (const auto& name : names) {
    const auto& info = entry.tensors->info(name);
    if (name.ends_with(".scale") && is_int8(*entry.tensors, name)) return fmt::format("SDNQ's tensors ('{}')", name);
    const bool is_scaled = name.ends_with(".weight_scale") || name.ends_with(".scale_weight");
    if (!is_scaled) continue;
    if (info.dtype == at::kByte || info.dtype == at::kFloat8_e8m0fnu) return fmt::format("MXFP8 ('{}')", name);
    if (is_int8(*entry.tensors, name)) return fmt::format("INT8 ('{}')", name);
  }
  return "";
}

void refuse_unread(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (const auto* model = look_alike_in(entry)) {
      data_error("models", "{} is a transformer of {}, which is not trained here; `burnish plan --help` names the models that are",
                 entry.label, model->name);
    }
    if (auto packing = unread_packing(entry); !packing.empty())
      data_error("models",
                 "the weights in {} are packed as {}, which is not read here; take the model's files in bf16, fp16, FP8, INT8, NF4 or GGUF",
                 entry.label, packing);
  }
}

}  // namespace burnish::models
