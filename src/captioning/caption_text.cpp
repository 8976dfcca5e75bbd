#include "captioning/caption_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace burnish::captioning {

namespace {

/// Line ends and blanks behind each other as one blank.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (char c : text) {
    const bool is_blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (is_blank && (line.empty() || line.back() == ' ')) continue;
    line += is_blank ? ' ' : c;
  }
  return std::string(trim(line));
}

std::string whole_sentences(const std::string& text) {
  const auto end = text.find_last_of(".!?");
  return end == text.npos ? text : text.substr(0, end + 1);
}

/// Lines and commas end tags, which have no full stop and no number or dash before them.
std::string tags_of(const std::string& text, bool is_cut) {
  auto separated = text;
  std::ranges::replace(separated, '\n', ',');
  auto parts = split_list(separated);
  if (is_cut && parts.size() > 1) parts.pop_back();
  std::vector<std::string> tags;
  for (const auto& part : parts) {
    auto tag = in_one_line(part);
    if (const auto begin = tag.find_first_not_of("-*• "); begin != tag.npos) tag.erase(0, begin);
    while (tag.ends_with('.')) tag.pop_back();
    if (!tag.empty() && !contains(tags, tag)) tags.push_back(tag);
  }
  return join(tags);
}

}  // namespace

std::string prompt_of(const CaptionRule& rule, bool is_clip, const Prompts& prompts) {
  auto filled = [&](const std::string& prompt) {
    return fmt::format(fmt::runtime(prompt), fmt::arg("what", is_clip ? "video" : "image"), fmt::arg("word", rule.trigger));
  };
  const auto asked = rule.prompt.empty() ? filled(rule.is_tags ? prompts.tags : prompts.sentences) : rule.prompt;
  return rule.trigger.empty() ? asked : asked + " " + filled(prompts.subject);
}

std::string prompt_for_boxes(const std::string& around) {
  return fmt::format(
      "Locate {} in this image. Answer with a JSON list and nothing else: [{{\"bbox_2d\": [x1, y1, x2, y2], \"label\": \"a short "
      "description\"}}]. For written words give them as \"text_content\" too.",
      around.empty() ? "the main objects, and written words," : around);
}

std::string caption_of(const CaptionRule& rule, const Written& written, const std::string& before) {
  const auto& text = written.text;
  auto caption = rule.is_tags ? tags_of(text, written.is_cut) : in_one_line(written.is_cut ? whole_sentences(text) : text);
  if (rule.is_added && !before.empty()) caption = before + (rule.is_tags ? ", " : " ") + caption;
  if (rule.trigger.empty() || caption.find(rule.trigger) != caption.npos) return caption;
  return caption.empty() ? rule.trigger : rule.trigger + ", " + caption;
}

}  // namespace burnish::captioning
