#include "data/captions.h"

#include <cctype>
#include <numeric>
#include <optional>

#include "base/input_error.h"
#include "base/text.h"

namespace burnish::data {

namespace {

using Tags = std::vector<std::string>;

/// Draws for a visit, or takes what comes first where none is given.
class Choice {
 public:
  explicit Choice(CounterRandom* random) : random_(random) {}
  size_t below(size_t bound) { return random_ ? static_cast<size_t>(random_->below(bound)) : 0; }
  bool drops(double share) { return random_ && share > 0 && random_->uniform() < share; }
  double uniform() { return random_ ? random_->uniform() : 0; }
  explicit operator bool() const { return random_ != nullptr; }

 private:
  CounterRandom* random_;
};

const std::string& choose(const Captions& captions, Choice& choice) {
  auto total = std::accumulate(captions.begin(), captions.end(), 0.0, [](double sum, const Caption& c) { return sum + c.weight; });
  auto left = choice.uniform() * total;
  for (const auto& caption : captions) {
    left -= caption.weight;
    if (left < 0) return caption.text;
  }
  return captions.front().text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

/// Replaces each {a|b} that holds no other by one of its parts, until none is left: braces within braces are alternatives of alternatives.
std::string without_alternatives(std::string text, Choice& choice) {
  // Bytes that occur in no UTF-8 text stand for braces that are meant.
  replace_all(text, "{{", "\xFE");
  replace_all(text, "}}", "\xFF");
  for (auto close = text.find('}'); close != text.npos; close = text.find('}')) {
    auto open = text.rfind('{', close);
    if (open == text.npos) {
      text[close] = '\xFF';
      continue;
    }
    auto inside = text.substr(open + 1, close - open - 1);
    Tags parts;
    for (size_t start = 0; start <= inside.size();) {
      auto end = std::min(inside.find('|', start), inside.size());
      parts.emplace_back(trim(std::string_view(inside).substr(start, end - start)));
      start = end + 1;
    }
    text.replace(open, close - open + 1, parts[choice.below(parts.size())]);
  }
  replace_all(text, "\xFE", "{");
  replace_all(text, "\xFF", "}");
  return text;
}

Tags tags_of(std::string_view text, std::string_view separator) {
  Tags tags;
  while (!text.empty()) {
    auto end = std::min(text.find(separator), text.size());
    if (auto tag = trim(text.substr(0, end)); !tag.empty()) tags.emplace_back(tag);
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return tags;
}

/// A caption's tags by whether they keep their place.
struct Parts {
  Tags first, free, last;
};

Parts parts_of(const CaptionRule& rule, std::string_view text) {
  if (auto at = rule.keep_separator.empty() ? text.npos : text.find(rule.keep_separator); at != text.npos) {
    auto rest = text.substr(at + rule.keep_separator.size());
    auto second = std::min(rest.find(rule.keep_separator), rest.size());
    auto last = rest.substr(std::min(second + rule.keep_separator.size(), rest.size()));
    return {tags_of(text.substr(0, at), rule.separator), tags_of(rest.substr(0, second), rule.separator), tags_of(last, rule.separator)};
  }
  auto all = tags_of(text, rule.separator);
  auto kept = all.begin() + std::min<int64_t>(rule.keep_tokens, std::ssize(all));
  return {{all.begin(), kept}, {kept, all.end()}, {}};
}

std::string with_tags_changed(const CaptionRule& rule, std::string_view text, Choice& choice) {
  auto [tags, free, last] = parts_of(rule, text);
  if (rule.shuffle && choice) {
    for (size_t i = free.size(); i > 1; --i) std::swap(free[i - 1], free[choice.below(i)]);
  }
  for (auto& tag : free) {
    if (!choice.drops(rule.tag_dropout)) tags.push_back(std::move(tag));
  }
  tags.insert(tags.end(), last.begin(), last.end());
  auto between = rule.separator + (rule.separator.ends_with(' ') ? "" : " ");
  return join(tags, between);
}

std::string caption(const CaptionRule& rule, const Captions& captions, Choice choice) {
  auto text = rule.wildcards ? choose(captions, choice) : captions.front().text;
  if (!rule.prefix.empty()) text = rule.prefix + " " + text;
  if (!rule.suffix.empty()) text += " " + rule.suffix;
  if (rule.wildcards) text = without_alternatives(std::move(text), choice);
  if (rule.shuffle || rule.tag_dropout > 0 || !rule.keep_separator.empty()) text = with_tags_changed(rule, text, choice);
  if (!rule.secondary_separator.empty()) {
    auto tags = tags_of(text, rule.secondary_separator);
    text = join(tags, rule.separator + (rule.separator.ends_with(' ') ? "" : " "));
  }
  return text;
}

}  // namespace

void check(const CaptionRule& rule) {
  auto check_share = [](const char* name, double share) {
    if (!(share >= 0 && share <= 1)) config_error("data", "{} must lie between 0 and 1, not {}", name, share);
  };
  check_share("caption_dropout", rule.dropout);
  check_share("caption_tag_dropout_rate", rule.tag_dropout);
  if (rule.keep_tokens < 0) config_error("data", "keep_tokens must be at least 0, not {}", rule.keep_tokens);
  if (rule.separator.empty()) config_error("data", "caption_separator is empty; give what stands between tags, a comma say");
}

std::string plain_caption(const CaptionRule& rule, const Captions& captions) { return caption(rule, captions, Choice(nullptr)); }

std::string draw_caption(const CaptionRule& rule, const Captions& captions, CounterRandom& random) {
  return caption(rule, captions, Choice(&random));
}

std::string with_trigger_word(const std::string& trigger_word, std::string caption) {
  if (trigger_word.empty()) return caption;
  for (const char* place : {"[trigger]", "[name]"}) replace_all(caption, place, trigger_word);
  if (caption.find(trigger_word) != caption.npos) return caption;
  return caption.empty() ? trigger_word : trigger_word + " " + caption;
}

std::string with_other_word(const std::string& caption, const std::string& word, const std::string& other) {
  auto is_part = [&](size_t at) {
    if (at >= caption.size()) return false;
    auto c = static_cast<unsigned char>(caption[at]);
    return std::isalnum(c) != 0 || c == '_' || c >= 0x80;
  };
  std::string changed;
  size_t done = 0;
  for (size_t at = 0; !word.empty() && (at = caption.find(word, at)) != caption.npos;) {
    const auto end = at + word.size();
    const bool is_whole = (at == 0 || !is_part(at - 1) || !is_part(at)) && (!is_part(end) || !is_part(end - 1));
    if (is_whole) changed += caption.substr(done, at - done) + other;
    if (is_whole) done = end;
    at = is_whole ? end : at + 1;
  }
  return changed + caption.substr(done);
}

}  // namespace burnish::data
