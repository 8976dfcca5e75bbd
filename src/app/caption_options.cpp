#include "app/caption_options.h"

#include <algorithm>
#include <array>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/text.h"
#include "config/changed.h"
#include "config/everyday_words.h"
#include "config/problems.h"
#include "data/caption_places.h"
#include "models/parts/picture_texts.h"

namespace burnish::app {

namespace {

constexpr double kLeastPenalty = 0.1, kMostPenalty = 10, kMostTemperature = 10, kLeastRate = 0.01, kMostRate = 240;
/// Options that do not belong to every model, and the kinds that they belong to.
struct OptionOfKinds {
  std::string name;
  std::vector<Captioner> kinds;
};
const std::vector<OptionOfKinds>& options_of_kinds() {
  using enum Captioner;
  const std::vector writers{language_model, joy_caption, florence2}, of_boxes{language_model, florence2};
  const std::vector language_models{language_model, joy_caption}, of_frames{language_model, tagger};
  static const std::vector<OptionOfKinds> kOptions{
      {"caption_style", writers},        {"caption_prompt", writers},        {"caption_layout", of_boxes},
      {"caption_boxes", of_boxes},       {"layout_pixels", of_boxes},        {"dtype", writers},
      {"max_new_tokens", writers},       {"tokenizer_path", writers},        {models::processor_option().name, writers},
      {"num_frames", of_frames},         {"frame_rate", of_frames},          {"weight_format", language_models},
      {"max_pixels", {language_model}},  {"frame_pixels", {language_model}}, {"repetition_penalty", language_models},
      {"temperature", language_models},  {"num_beams", {florence2}},         {"tag_threshold", {tagger}},
      {"character_threshold", {tagger}}, {"tag_rating", {tagger}},           {"tag_order", {tagger}},
      {"tags_without", {tagger}},        {"keep_underscores", {tagger}},     {"caption_prefix", {tagger}}};
  return kOptions;
}
const char* name_of(Captioner kind) {
  constexpr std::array kNames{"Qwen-VL", "JoyCaption", "Florence-2", "taggers"};
  return kNames.at(static_cast<size_t>(kind));
}
constexpr int64_t kMostPixelsShown = 4096 * 4096, kMostFrames = 768, kMostBeams = 32;

void add_tags(config::Fields& f, CaptionOptions& o) {
  f.group("Tags");
  f("tag_threshold", o.tags.general,
    "how likely a tagger has to find a general tag for it to be written; 0: what is usual for the model, 0.5 of EVA-02 and 0.35 of others")
      .label("Tags from")
      .at_least(0)
      .at_most(1);
  f("character_threshold", o.tags.character, "how likely it has to find the tag of a character")
      .label("Characters from")
      .at_least(0)
      .at_most(1);
  f("tag_rating", o.tags.with_rating, "writes the likeliest rating (general, sensitive, questionable, explicit) behind all tags");
  f("tag_order", o.tag_order, "likelihood writes characters first and then what is likeliest, alphabetical by letters")
      .one_of({"likelihood", "alphabetical"});
  f("tags_without", o.tags.without, "a tag that is never written; may be given several times");
  f("keep_underscores", o.tags.keeps_underscores, "writes long_hair, and not long hair; faces such as ^_^ stay in any case");
  f("caption_prefix", o.tags.prefix, "what stands before the tags of every caption, behind the trigger word");
}

void add_layout(config::Fields& f, CaptionOptions& o) {
  auto has_boxes = [&o] { return !o.layout.is_text(); };
  f("caption_layout", o.layout.name,
    "the form of captions: text, or JSON that says what lies where: elements with boxes in thousandths of a picture's sides, items with "
    "boxes in pixels from its middle")
      .label("Form")
      .one_of(captioning::layout_names());
  f("caption_boxes", o.layout.boxes,
    "what boxes are put around: words for it, or a task of Florence-2 such as <OD>; without it all that the model sees")
      .label("Boxes around")
      .counts_when("a caption_layout with boxes", has_boxes);
  f("layout_pixels", o.layout.most_pixels, "pixels that a picture has at most when it trains, in which boxes of items count")
      .at_least(1)
      .at_most(kMostPixelsShown)
      .in("pixels")
      .counts_when("caption_layout items", [&o] { return o.layout.name == captioning::layout_names().back(); });
}

void add_writing(config::Fields& f, CaptionOptions& o) {
  f.group("Writing");
  auto& tokens = o.writing.tokens;
  f("max_new_tokens", o.writing.max_new_tokens, "tokens of a caption at most")
      .label("Longest caption")
      .at_least(1)
      .at_most(kMostTokens)
      .in("tokens");
  f("repetition_penalty", tokens.repetition_penalty, "how much less likely tokens are that were said; 1 is off")
      .at_least(kLeastPenalty)
      .at_most(kMostPenalty);
  f("temperature", tokens.temperature,
    "0 takes the likeliest token; above, tokens are drawn, by numbers that seed and a picture's name give")
      .at_least(0)
      .at_most(kMostTemperature);
  auto is_drawn = [&o] { return o.writing.tokens.temperature > 0; };
  f("top_k", tokens.top_k, "draws one of so many likeliest tokens; 0: of all").at_least(0).counts_when("temperature above 0", is_drawn);
  f("top_p", tokens.top_p, "draws one of the likeliest tokens that have this probability together")
      .at_least(0)
      .at_most(1)
      .counts_when("temperature above 0", is_drawn);
  f("num_beams", o.writing.num_beams,
    "captions that Florence-2 goes on with at once, of which the likeliest is written; 1 takes the likeliest token")
      .label("Captions searched")
      .at_least(1)
      .at_most(kMostBeams);
  f("seed", o.seen_by.model.seed, "names every random draw").label("Random seed").at_least(0).matters_when("temperature above 0", is_drawn);
}

/// The names of options that do not have the value they have by themselves.
std::vector<std::string> changed(const config::Fields& values) {
  CaptionOptions untouched;
  config::Fields of_untouched;
  fields(of_untouched, untouched);
  return config::changed(values, of_untouched);
}

/// Refuses options that were given and whose condition does not hold.
void refuse_idle(const config::Fields& values, config::Problems& problems) {
  const auto given = changed(values);
  for (const auto& field : values.list()) {
    for (const auto& condition : field.conditions) {
      if (condition.may_be_repeated || condition.counts() || !contains(given, field.name)) continue;
      problems.add("{} has no effect here: it belongs to {}; give that, or take it out", field.name, condition.belongs_to);
    }
  }
}

}  // namespace

void fields(config::Fields& f, CaptionOptions& o) {
  f.group("Captions");
  f.positional("folder", o.folders, "folders of pictures and clips, beside which captions are written");
  f("only", o.seen_by.only, "pictures of the folder that are written for, by their names from it on; without it all of them");
  f("caption_style", o.style, "sentences, or tags with commas between").label("Style").one_of({"sentences", "tags"});
  f("caption_prompt", o.caption.prompt, "what is asked about every picture, in place of this program's prompt for the style")
      .label("Question asked");
  add_layout(f, o);
  f("trigger_word", o.caption.trigger, "a word that every caption begins with, or holds; the prompt tells the model of it")
      .called(config::kTrigger);
  f("caption_mode", o.mode, "fill writes captions that are missing, replace all, add goes on behind those that are there")
      .label("Captions that are there")
      .one_of({"fill", "replace", "add"});
  f("caption_extension", o.extension, "ending of the files with captions");
  f("json", o.seen_by.json, "print what was written, and what could not be, as JSON, and nothing else");
  model_fields(
      f, o.seen_by,
      "Qwen2.5-VL or Qwen3-VL: its folder, its id on a hub (Qwen/Qwen3-VL-4B-Instruct, say), which is fetched, or the folder of a "
      "model that has one as its text encoder; or JoyCaption-beta-one, Florence-2-base and its kin, by name, id or folder; or a WD "
      "tagger of version 3: its folder, or wd-eva02-large-tagger-v3 and its kin");
  f("weight_format", o.weight_format, "how the weights of the language model are held: none takes dtype, or the codes of its files")
      .label("Format of weights")
      .one_of({"none", "fp8", "fp8_tensor", "fp8_block", "fp8_plain", "fp8_e5m2", "int8", "int8_convrot", "nf4"});
  f.group("Pictures");
  f("max_pixels", o.detail.picture_pixels, "pixels of a picture that the model sees at most; 0: as many as it was published with")
      .label("Detail of pictures")
      .at_least(0)
      .at_most(kMostPixelsShown)
      .in("pixels");
  f("frame_pixels", o.detail.frame_pixels, "pixels of a frame of a clip that the model sees at most")
      .label("Detail of frames")
      .at_least(1)
      .at_most(kMostPixelsShown)
      .in("pixels");
  f("num_frames", o.frames.most, "frames of a clip that the model sees at most; 1: the first one")
      .label("Frames of a clip")
      .at_least(1)
      .at_most(kMostFrames)
      .in("frames");
  f("frame_rate", o.frames.rate, "frames of a clip that it sees in a second").at_least(kLeastRate).at_most(kMostRate);
  f("batch_size", o.batch_size, "pictures that are written about at once")
      .label("Pictures at once")
      .at_least(1)
      .at_most(kMostInABatch)
      .called(config::kBatch);
  add_tags(f, o);
  add_writing(f, o);
}

void check_belongs(const CaptionOptions& o, Captioner kind, const std::string& name) {
  auto copy = o;
  config::Fields values;
  fields(values, copy);
  config::Problems problems(values);
  for (const auto& given : changed(values)) {
    const auto option = std::ranges::find(options_of_kinds(), given, &OptionOfKinds::name);
    if (option == options_of_kinds().end() || std::ranges::find(option->kinds, kind) != option->kinds.end()) continue;
    std::vector<std::string> kinds;
    for (auto one : option->kinds) kinds.emplace_back(name_of(one));
    auto named = kinds.back();
    kinds.pop_back();
    if (!kinds.empty()) named = join(kinds) + " and " + named;
    problems.add("{} has no effect here: it belongs to {}, which the {} is not; take it out, or name another model", given, named, name);
  }
  problems.refuse("caption");
}

void check(CaptionOptions& o) {
  config::Fields listed;
  fields(listed, o);
  config::Problems problems(listed);
  problems.check_values();
  problems.gather([&] { train::check(o.seen_by.model); });
  if (o.folders.empty())
    problems.add("folder names the pictures that are to be captioned; for example: burnish caption photos --model MODEL");
  if (o.seen_by.model.model.empty())
    problems.add(
        "model names a Qwen2.5-VL, a Qwen3-VL, a JoyCaption, a Florence-2 or a WD tagger; for example --model Qwen/Qwen3-VL-4B-Instruct");
  problems.gather([&] { data::check_ending_written(o.extension); });
  problems.gather([&] { refuse_idle(listed, problems); });
  if (o.mode == "add" && !o.layout.is_text())
    problems.add("caption_mode add goes on behind a text, and caption_layout {} makes each caption a whole; take --caption_mode replace",
                 o.layout.name);
  problems.refuse("caption");
  o.caption.is_tags = o.style == "tags";
  o.caption.is_added = o.tags.is_added = o.mode == "add";
  o.tags.is_alphabetical = o.tag_order == "alphabetical";
  o.tags.trigger = o.caption.trigger;
  o.writing.seed = static_cast<uint64_t>(o.seen_by.model.seed);
}

}  // namespace burnish::app
