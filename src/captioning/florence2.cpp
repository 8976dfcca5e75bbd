#include "captioning/florence2.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "models/parts/shared_components.h"
#include "models/text/resample.h"

namespace burnish::captioning {

namespace {

const std::string kEye = "vision_tower", kWriter = "language_model";
constexpr const char* kMarkOfEye = "vision_tower.convs.0.norm.weight";

/// A task by its mark, and what it asks in words (transformers: Florence2Processor); {} stands for what follows the mark.
struct Task {
  const char *mark, *sentence;
};
constexpr std::array kTasks{
    Task{"<OCR>", "What is the text in the image?"},
    Task{"<OCR_WITH_REGION>", "What is the text in the image, with regions?"},
    Task{"<CAPTION>", "What does the image describe?"},
    Task{"<DETAILED_CAPTION>", "Describe in detail what is shown in the image."},
    Task{"<MORE_DETAILED_CAPTION>", "Describe with a paragraph what is shown in the image."},
    Task{"<OD>", "Locate the objects with category name in the image."},
    Task{"<DENSE_REGION_CAPTION>", "Locate the objects in the image, with their descriptions."},
    Task{"<REGION_PROPOSAL>", "Locate the region proposals in the image."},
    Task{"<CAPTION_TO_PHRASE_GROUNDING>", "Locate the phrases in the caption: {}"},
    Task{"<OPEN_VOCABULARY_DETECTION>", "Locate {} in the image."},
};

/// The tokens that stand behind BART's vocabulary, in their order (Microsoft: processing_florence2.py).
std::vector<std::string> marks() {
  std::vector<std::string> all{"<od>", "</od>", "<ocr>", "</ocr>"};
  constexpr int kPlaces = 1000;
  for (int i = 0; i < kPlaces; ++i) all.push_back(fmt::format("<loc_{}>", i));
  for (const char* mark : {"<cap>",
                           "</cap>",
                           "<ncap>",
                           "</ncap>",
                           "<dcap>",
                           "</dcap>",
                           "<grounding>",
                           "</grounding>",
                           "<seg>",
                           "</seg>",
                           "<sep>",
                           "<region_cap>",
                           "</region_cap>",
                           "<region_to_desciption>",
                           "</region_to_desciption>",
                           "<proposal>",
                           "</proposal>",
                           "<poly>",
                           "</poly>",
                           "<and>"})
    all.emplace_back(mark);
  return all;
}

std::string without_prefix(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// Returns transformers' name, without "model." before it, of a tensor of the eye that may be called as in Microsoft's files; "" for
/// others.
std::string name_in_eye(const std::string& given) {
  auto name = without_prefix(given, "model.");
  const std::string projector = "multi_modal_projector.";
  if (name.starts_with(projector)) return name.find("visual_temporal_embed") == name.npos ? name : "";
  if (name == "image_projection" || name.starts_with("image_proj_norm.")) return projector + name;
  if (name.starts_with("image_pos_embed.")) return projector + "image_position_embed." + name.substr(name.find('.') + 1);
  if (!name.starts_with("vision_tower.")) return "";
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const auto at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
  };
  if (name.starts_with("vision_tower.convs.")) replace(".proj.", ".conv.");
  for (const auto& [from, to] :
       {std::pair(".fn.dw.", "."), std::pair(".ffn.norm.", ".norm2."), std::pair(".ffn.fn.net.", ".ffn."),
        std::pair("window_attn.norm.", "norm1."), std::pair("channel_attn.norm.", "norm1."), std::pair("_attn.fn.", "_attn.")})
    replace(from, to);
  return name;
}

/// Returns a name of the language model without what stands before it; "" for other parts, and for what has no numbers of its own.
std::string name_in_writer(const std::string& given) {
  const auto name = without_prefix(given, "model.");
  if (name == "lm_head.weight") return name;
  if (!name.starts_with("language_model.")) return "";
  const auto below = without_prefix(without_prefix(name, "language_model."), "model.");
  return below == "final_logits_bias" ? "" : below;
}

/// The tensors of the language model, with the table of tokens under one name: files hold it under one or several.
io::TensorSource writer_tensors(const io::TensorSource& file) {
  const auto all = file.renamed(name_in_writer);
  const std::array tables{"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"};
  const auto table = std::ranges::find_if(tables, [&](const char* name) { return all.contains(name); });
  if (table == tables.end()) data_error("captioning", "the Florence-2 has no table of tokens; take the files of the whole model");
  return all.renamed([&](const std::string& name) -> std::string {
    if (std::ranges::find(tables, name) == tables.end()) return name;
    return name == *table ? "shared.weight" : "";
  });
}

bool is_florence2(const models::ModelEntry& entry) {
  return entry.tensors && (entry.tensors->contains(kMarkOfEye) || entry.tensors->contains(std::string("model.") + kMarkOfEye));
}

nlohmann::json part_of(const nlohmann::json& config, const char* name) {
  return config.is_object() && config.contains(name) ? config[name] : nlohmann::json();
}

}  // namespace

std::string sentence_of(const std::string& asked) {
  for (const auto& [mark, sentence] : kTasks) {
    if (!asked.starts_with(mark)) continue;
    const std::string words = sentence;
    const auto place = words.find("{}");
    return place == words.npos
               ? words
               : words.substr(0, place) + std::string(trim(asked.substr(std::string(mark).size()))) + words.substr(place + 2);
  }
  return asked;
}

bool Florence2::is_in(const models::ModelFiles& files) { return files.find(is_florence2) != nullptr; }

Florence2::Florence2(const models::ModelFiles& files, const models::ModelOptions& options, const std::string& processor_path)
    : files_(files), options_(options), components_(files, options), entry_(files.find(is_florence2)) {
  if (entry_ == nullptr)
    data_error("captioning", "there is no Florence-2 in {}; name the folder of one, or Florence-2-base", files.describe());
  models::naming(entry_->label, [&] {
    find_parts();
    return 0;
  });
  find_tokenizer();
  read_processor(processor_path);
}

void Florence2::find_parts() {
  const auto beside = entry_->folder / "config.json";
  const auto config = entry_->config.is_null() && io::is_there(beside) ? io::read_json(beside) : entry_->config;
  const io::KeyMap keys({io::KeyRule{
      "multi_modal_projector.image_projection", {"multi_modal_projector.image_projection.weight"}, io::KeyRule::Op::transpose}});
  const models::Source eye{entry_, entry_->tensors->renamed(name_in_eye), keys};
  eye_ = davit_config(part_of(config, "vision_config"), eye.shapes());
  const models::Source writer{entry_, writer_tensors(*entry_->tensors), {}};
  bart_ = bart_config(part_of(config, "text_config"), writer.shapes());
  if (eye_.projected != bart_.width)
    data_error("captioning",
               "the eye of the Florence-2 makes tokens {} wide, and its language model is {} wide; the files are of two models",
               eye_.projected, bart_.width);
  components_.add({.name = kEye, .what = "eye of Florence-2", .source = eye, .build = [c = eye_](const auto&, const auto& o) {
                     return std::make_unique<DavitEye>(c, o);
                   }});
  components_.add(
      {.name = kWriter, .what = "language model of Florence-2", .source = writer, .build = [c = bart_](const auto&, const auto& o) {
         return std::make_unique<Bart>(c, o);
       }});
  const auto settings = entry_->folder / "generation_config.json";
  if (io::is_there(settings)) io::take(io::read_json(settings), "no_repeat_ngram_size", no_repeat_, "Florence-2");
}

void Florence2::find_tokenizer() {
  auto chosen = options_.tokenizer_path;
  if (chosen.empty()) chosen = models::folder_with(*entry_, {"tokenizer.json", "vocab.json"});
  tokenizer_ = tokenizers::load_bart(models::tokenizer_folder(files_, chosen, "tokenizer", "BART"), marks());
  // Tokens behind the last one that is written about, "<image>" say, have no row of their own in Microsoft's files.
  const auto written = tokenizer_->encode("<loc_999>");
  if (written.size() != 3 || std::ranges::max(written) >= bart_.vocab_size)
    data_error("captioning", "the tokenizer has {} tokens and the Florence-2 knows {}; they belong to different models",
               tokenizer_->num_ids(), bart_.vocab_size);
}

void Florence2::read_processor(const std::string& processor_path) {
  pixels_ = models::text::imagenet_pixels();  // what is published with it
  const auto chosen =
      processor_path.empty() ? models::folder_with(*entry_, {"preprocessor_config.json", "processor_config.json"}) : processor_path;
  const auto processor = models::find_processor(files_, chosen);
  auto height = side_, width = side_;
  if (processor) {
    models::naming(processor->file.string(), [&] {
      const auto& json = processor->of_pictures;
      const auto size = part_of(json, "size");
      io::take(size, "height", height, "processor of Florence-2");
      io::take(size, "width", width, "processor of Florence-2");
      pixels_ = models::text::pixel_rule(json);
      return 0;
    });
  }
  side_ = height;
  const auto places = DavitEye::places_of(eye_, side_);
  if (height != width || places < 1 || places > eye_.num_places)
    data_error(
        "captioning",
        "pictures are scaled to {} by {} pixels for Florence-2, which are {} places along a side; a square of 1 to {} places was expected",
        width, height, places, eye_.num_places);
}

at::Tensor Florence2::shown(const at::Tensor& picture_HW3) const {
  const auto levels = picture_HW3.permute({2, 0, 1}).to(at::kDouble);
  return models::text::normalised(models::text::resampled(levels, side_, side_, models::text::Filter::bicubic), pixels_).to(at::kFloat);
}

at::Tensor Florence2::see(const at::Tensor& image_B3SS) {
  at::NoGradGuard no_grad;
  return static_cast<DavitEye&>(components_.module(kEye)).forward(image_B3SS.to(options_.device, options_.dtype));
}

at::Tensor Florence2::read(const at::Tensor& tokens_BNE, const std::string& asked) {
  at::NoGradGuard no_grad;
  auto& bart = static_cast<Bart&>(components_.module(kWriter));
  const auto ids_L = at::tensor(tokenizer_->encode(sentence_of(asked))).to(tokens_BNE.device());
  return bart.encode(at::cat({tokens_BNE, bart.embed(ids_L.expand({tokens_BNE.size(0), -1}))}, 1));
}

std::optional<std::vector<FoundText>> Florence2::answer(const at::Tensor& tokens_BNE, const std::string& asked, const BeamRule& given,
                                                        const std::function<bool()>& goes_on) {
  auto rule = given;
  rule.no_repeat = no_repeat_;
  rule.start = rule.end = tokenizer_->end_id();
  rule.first = tokenizer_->encode("").front();
  rule.max_new_tokens = std::min(rule.max_new_tokens, bart_.num_places);
  return beam_search(static_cast<Bart&>(components_.module(kWriter)), read(tokens_BNE, asked), rule, goes_on);
}

}  // namespace burnish::captioning
