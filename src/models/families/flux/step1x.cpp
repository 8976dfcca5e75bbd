#include "models/families/flux/step1x.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/input_error.h"
#include "io/files.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/find_components.h"
#include "models/parts/picture_texts.h"
#include "models/parts/shared_components.h"
#include "models/parts/shared_units.h"
#include "models/text/resample.h"

namespace burnish::models::flux {

namespace {

using pipeline::Scope;

const std::string kText = "text_encoder", kVision = "image_encoder", kConnector = "step1x_connector";
/// Tokens of states that the connector takes.
constexpr int64_t kStatesLength = 640;
/// The area of pictures that the vision tower is shown.
constexpr text::PixelRule kStep1xPixels{.least = 256 * 28 * 28, .most = 324 * 28 * 28};

/// The conversation before the picture. States are kept from its last mark on.
const std::string kInstruction =
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    "Given a user prompt, generate an \"Enhanced prompt\" that provides detailed visual descriptions suitable for image generation. "
    "Evaluate "
    "the level of detail in the user prompt:\n- If the prompt is simple, focus on adding specifics about colors, shapes, sizes, textures, "
    "and spatial relationships to create vivid and concrete scenes.\n- If the prompt is already detailed, refine and enhance the existing "
    "details slightly without overcomplicating.\n\nHere are examples of how to transform or refine prompts:\n- User Prompt: A cat sleeping "
    "-> Enhanced: A small, fluffy white cat curled up in a round shape, sleeping peacefully on a warm sunny windowsill, surrounded by pots "
    "of blooming red flowers.\n- User Prompt: A busy city street -> Enhanced: A bustling city street scene at dusk, featuring glowing "
    "street lamps, a diverse crowd of people in colorful clothing, and a double-decker bus passing by towering glass "
    "skyscrapers.\n\nPlease "
    "generate only the enhanced description for the prompt below and avoid including any additional commentary or evaluations:\nUser "
    "Prompt";
const std::string kBeforePicture = ":Picture 1: <|vision_start|>", kBehindPicture = "<|vision_end|>";
const std::string kBehindPrompt = "<|im_end|>\n<|im_start|>assistant\n";
const std::string kOpenQuote = "\u201c", kCloseQuote = "\u201d";

/// The letters of a text in UTF-8, every quote as a straight double one.
std::vector<std::string> letters_of(std::string_view text) {
  std::vector<std::string> letters;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
    std::string letter(text.substr(i, end - i));
    letters.push_back(letter == kOpenQuote || letter == kCloseQuote || letter == "'" ? "\"" : letter);
    i = end;
  }
  return letters;
}

/// The ids of a letter between curly quotes, without those where they are tokens of their own.
std::vector<int64_t> quoted_ids(const tokenizers::ChatTokenizer& tokenizer, const std::string& letter) {
  auto open = tokenizer.encode_bare(kOpenQuote), close = tokenizer.encode_bare(kCloseQuote);
  auto ids = tokenizer.encode_bare(kOpenQuote + letter + kCloseQuote);
  if (open.size() == 1 && close.size() == 1 && ids.size() > 1 && ids.front() == open[0] && ids.back() == close[0])
    return {ids.begin() + 1, ids.end() - 1};
  return ids;
}

void append(std::vector<int64_t>& ids, const std::vector<int64_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); }

void append_prompt(std::vector<int64_t>& ids, const tokenizers::ChatTokenizer& tokenizer, std::string_view prompt) {
  std::string plain;
  bool is_quoted = false;
  for (const auto& letter : letters_of(std::string(prompt) + kBehindPrompt)) {
    if (letter != "\"" && is_quoted) {
      append(ids, quoted_ids(tokenizer, letter));
      continue;
    }
    plain += letter;
    if (letter != "\"") continue;
    if (!is_quoted) append(ids, tokenizer.encode_bare(plain));
    if (!is_quoted) plain.clear();
    is_quoted = !is_quoted;
  }
  append(ids, tokenizer.encode_bare(plain));
}

}  // namespace

Step1xText step1x_text(const tokenizers::ChatTokenizer& tokenizer, std::string_view prompt, const at::Tensor& seen_RCF, int64_t limit) {
  Step1xText text;
  text.num_dropped = std::ssize(tokenizer.encode_bare(kInstruction));
  text.ids = tokenizer.encode_bare(kInstruction + kBeforePicture);
  text.picture = {std::ssize(text.ids), seen_RCF};
  text.ids.resize(text.ids.size() + static_cast<size_t>(seen_RCF.size(0) * seen_RCF.size(1)));
  const auto behind_picture = std::ssize(text.ids);
  append(text.ids, tokenizer.encode_bare(kBehindPicture));
  append_prompt(text.ids, tokenizer, prompt);
  auto most = std::max(text.num_dropped + limit, behind_picture);
  if (std::ssize(text.ids) > most) text.ids.resize(static_cast<size_t>(most));
  return text;
}

Source find_connector(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (entry.tensors && entry.tensors->contains(kConnectorPrefix + "S.input_embedder.weight"))
      return {&entry, entry.tensors->below(kConnectorPrefix), {}};
  }
  return {};
}

Step1x::Step1x(const ModelFiles& files, const ModelOptions& options, const Config& dit)
    : files_(files), options_(options), connector_(find_connector(files)) {
  if (!is_there()) return;
  connector_config_ = naming(connector_.entry->label, [&] { return Connector::detect(connector_.shapes()); });
  text_ = find_qwen(files, {""}, kQwen2Mark);
  vision_ = find_vision_tower(files, {""});
  text_config_ = read_named(text_, text::qwen_config);
  vision_config_ = read_named(vision_, text::vision_config);
  auto agree = [](const char* what, int64_t found, int64_t expected) {
    if (found != expected)
      data_error("models", "Step1X-Edit's {} is {}, and {} was expected; the files belong to different models", what, found, expected);
  };
  agree("width of texts", connector_config_.width, dit.joint_attention_dim);
  agree("width of pooled texts", connector_config_.pooled_width, dit.pooled_projection_dim);
  if (text_.entry) agree("width of the text encoder", text_config_.width, connector_config_.num_features);
}

int64_t Step1x::text_length() const { return prompt_length(options_, kStatesLength); }

void Step1x::add_components(const AddComponent& add) const {
  const QwenUse use{.text = {.length = kStatesLength}, .num_read = text_config_.num_layers};
  auto text = qwen_part(text_, text_config_, use, files_, options_);
  // The tokenizer lies beside the text encoder's weights.
  text.recipe.tokenizer->folder = [this, otherwise = text.recipe.tokenizer->folder] {
    auto is_vocabulary = [&](const char* name) { return text_.entry && io::is_there(text_.entry->folder / name); };
    bool is_beside = options_.tokenizer_path.empty() && (is_vocabulary("tokenizer.json") || is_vocabulary("vocab.json"));
    return is_beside ? text_.entry->folder : otherwise();
  };
  add(text.recipe, text.names);
  add(vision_recipe(kVision, vision_, vision_config_, kStep1xPixels), vision_names(kVision, "lora_vis_"));
  add({.name = kConnector,
       .what = "connector",
       .source = connector_,
       .build = [this](const std::string&, const at::TensorOptions& o) { return std::make_unique<Connector>(connector_config_, o); }},
      plain_names(kConnector));
}

void Step1x::add_names(Names& names) const {
  names.variant = "Step1X-Edit";
  names.file_words = {.implementation = "https://github.com/stepfun-ai/Step1X-Edit"};
  names.references.expected = kStep1xColumn;
  if (options_.references) names.references.column = kStep1xColumn;
  names.values.erase("text_embedding");
  names.values.erase("pooled_embedding");
  names.values["prompt_states"] = {
      .shape = {-1, -1, connector_config_.num_features}, .diffsynth = {"step1x_llm_embedding"}, .of_prompt = true};
  names.values["latents_of_references"].diffsynth = references_in_list("step1x_reference_latents");
  names.values["prompt_mask"] = {.shape = {-1, -1}, .diffsynth = {"step1x_mask"}, .of_prompt = true};
}

void Step1x::encode_prompt(Components& components, Scope& scope) const {
  const auto& seen = scope.lists("seen_references").at(0);
  if (seen.size() != 1)
    data_error("models", "Step1X-Edit reads one reference picture of each row and prompt, and one has {}; name one ({}, or --reference)",
               seen.size(), kStep1xColumn);
  scope.uses(kText);
  const auto& tokenizer = static_cast<const tokenizers::ChatTokenizer&>(components.tokenizer(kText));
  auto text = step1x_text(tokenizer, scope.text("prompt"), seen[0], text_length());
  auto ids_BL = as_batch(text.ids, options_.device);
  auto& encoder = static_cast<text::QwenEncoder&>(components.module(kText));
  auto all = encoder.forward(ids_BL, {text_config_.num_layers}, {text.picture}).front();
  auto states = all.narrow(1, text.num_dropped, std::min(text_length(), all.size(1) - text.num_dropped));
  auto missing = text_length() - states.size(1);
  scope.write("prompt_states", at::constant_pad_nd(states, {0, 0, 0, missing}));
  scope.write("prompt_mask", at::constant_pad_nd(at::ones({1, states.size(1)}, states.options()), {0, missing}));
}

pipeline::Units Step1x::prompt_units(Components& components) const {
  if (!options_.references)
    config_error("models", "Step1X-Edit reads a picture beside the prompt; name its column with --extra_inputs {}, or one with --reference",
                 kStep1xColumn);
  auto see = [this](nn::Module& tower, const at::Tensor& image, size_t) {
    const auto patches = text::patches_of(text::to_levels(image.to(options_.device)), vision_config_, kStep1xPixels);
    return static_cast<text::QwenVision&>(tower).forward(patches);
  };
  return {seeing_unit(components, kVision, see),
          {"encode_prompt", {"prompt", "seen_references"}, {"prompt_states", "prompt_mask"}, {kText}, [this, &components](Scope& s) {
             encode_prompt(components, s);
           }}};
}

pipeline::Units Step1x::connect_units(Components& components) const {
  if (!is_there()) return {};
  return {{"connect",
           {"sigma", "prompt_states", "prompt_mask"},
           {"text_embedding", "pooled_embedding"},
           {kConnector},
           [this, &components](Scope& s) {
             s.uses(kConnector);
             auto as_model = [&](const char* name) { return s.tensor(name).to(options_.device, options_.dtype); };
             auto text =
                 static_cast<Connector&>(components.module(kConnector))
                     .forward(as_model("prompt_states"), as_model("prompt_mask"), s.tensor("sigma").to(options_.device, at::kFloat));
             s.write("text_embedding", text.text_BTE);
             s.write("pooled_embedding", text.pooled_BE);
           }}};
}

}  // namespace burnish::models::flux
