#include "drawing/picture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/number.h"
#include "base/text.h"
#include "models/registry.h"

namespace burnish::drawing {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// Returns where the next flag begins at or behind `from`; the line's end when there is none.
size_t find_flag(std::string_view line, size_t from) {
  for (auto at = line.find("--", from); at != line.npos; at = line.find("--", at + 1)) {
    auto next = at + 2 < line.size() ? line[at + 2] : ' ';
    bool is_letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    if (is_letter && (at == 0 || is_blank(line[at - 1]))) return at;
  }
  return line.size();
}

/// Where the JSON object ends with which a line begins, whatever stands in its texts; 0 where the line begins otherwise or it never ends.
size_t end_of_object(std::string_view line) {
  if (!line.starts_with('{')) return 0;
  size_t depth = 0;
  bool in_text = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (in_text && c == '\\') ++at;
    else if (c == '"') in_text = !in_text;
    else if (!in_text && c == '{') ++depth;
    else if (!in_text && c == '}' && --depth == 0) return at + 1;
  }
  return 0;
}

/// One line of a prompt file; `where` names it in messages.
class Line {
 public:
  Line(std::string_view text, std::string where, const Picture& defaults) : where_(std::move(where)), picture_(defaults) {
    auto at = find_flag(text, end_of_object(text));
    picture_.prompt = trim(text.substr(0, at));
    while (at < text.size()) {
      auto next = find_flag(text, at + 2);
      apply(text.substr(at + 2, next - at - 2));
      at = next;
    }
  }
  const Picture& picture() const { return picture_; }

 private:
  /// "w 512".
  void apply(std::string_view flag) {
    auto end = flag.find_first_of(" \t");
    auto name = flag.substr(0, end);
    auto value = end == flag.npos ? std::string_view() : trim(flag.substr(end));
    if (name == "w") {
      picture_.extent.width = whole(name, value, 1, kMostPixelsASide);
    } else if (name == "h") {
      picture_.extent.height = whole(name, value, 1, kMostPixelsASide);
    } else if (name == "f") {
      picture_.extent.frames = whole(name, value, 1, kMostFrames);
    } else if (name == "d") {
      picture_.seed = whole(name, value, 0);
    } else if (name == "s") {
      picture_.num_inference_steps = whole(name, value, 1, kMostSamplerSteps);
    } else if (name == "l") {
      picture_.guidance.scale = finite(name, value);
    } else if (name == "n") {
      picture_.negative_prompt = value;
    } else if (name == "am") {
      set_strengths(value);
    } else if (name == "ci") {
      add_reference(value);
    } else if (find_column(models::extra_inputs(), std::string(name)) != nullptr) {
      add_input(std::string(name), value);
    } else {
      data_error("drawing",
                 "{}: --{} is not known; behind a prompt there may be --w, --h, --f (frames), --d (seed), --s (steps), --l (guidance "
                 "scale), --n (negative prompt), --am (strengths of LoRAs), --ci (reference picture) and the extra inputs of models",
                 where_, name);
    }
  }

  void set_strengths(std::string_view text) {
    const auto count = picture_.strengths.size();
    if (count == 0) data_error("drawing", "{}: --am is the strength of LoRAs, and none are drawn with; take it out, or name them", where_);
    std::vector<double> strengths;
    for (const auto& part : split_list(text)) strengths.push_back(finite("am", part));
    if (strengths.size() == 1) strengths.assign(count, strengths.front());
    if (strengths.size() != count)
      data_error("drawing", "{}: --am has {} strengths, and {} LoRAs are drawn with; give one for each, or one for all", where_,
                 strengths.size(), count);
    picture_.strengths = std::move(strengths);
  }

  /// The first of a line takes the place of the defaults.
  void add_reference(std::string_view file) {
    if (file.empty()) data_error("drawing", "{}: --ci must name the file of a reference picture", where_);
    if (!std::exchange(has_references_, true)) picture_.references.clear();
    picture_.references.emplace_back(file);
  }

  /// Likewise.
  void add_input(const std::string& column, std::string_view value) {
    if (value.empty()) data_error("drawing", "{}: --{} must have a value", where_, column);
    if (columns_.insert(column).second) picture_.inputs.erase(column);
    picture_.inputs[column].emplace_back(value);
  }

  double finite(std::string_view name, std::string_view text) const {
    auto value = parse_number<double>(text);
    if (!value) data_error("drawing", "{}: --{} must be a number, not '{}'", where_, name, text);
    return *value;
  }

  int64_t whole(std::string_view name, std::string_view text, int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) const {
    auto value = parse_number<int64_t>(text);
    if (!value || *value < least)
      data_error("drawing", "{}: --{} must be a whole number of at least {}, not '{}'", where_, name, least, text);
    if (*value > most) data_error("drawing", "{}: --{} must be at most {}, not {}", where_, name, most, *value);
    return *value;
  }

  std::string where_;
  Picture picture_;
  bool has_references_ = false;
  std::set<std::string> columns_;  ///< that the line has named
};

}  // namespace

std::vector<Picture> parse_prompts(std::string_view text, const std::string& origin, const Picture& defaults) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<Picture> pictures;
  for (int64_t number = 1; !text.empty(); ++number) {
    auto end = std::min(text.find('\n'), text.size());
    auto line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    auto where = fmt::format("{} line {}", origin, number);
    if (!is_utf8(line)) data_error("drawing", "{} is not UTF-8; save the file in that encoding", where);
    pictures.push_back(Line(line, where, defaults).picture());
  }
  return pictures;
}

std::vector<Extent> extents_of(const std::vector<Picture>& pictures) {
  std::vector<Extent> extents;
  for (const auto& picture : pictures) extents.push_back(picture.extent);
  return extents;
}

std::vector<Picture> numbered(const std::vector<Picture>& pictures, int64_t num_copies, int64_t seed) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  auto plus = [&](int64_t first, int64_t count) {
    return static_cast<int64_t>((static_cast<uint64_t>(first) + static_cast<uint64_t>(count)) & kMost);
  };
  std::vector<Picture> all;
  for (const auto& picture : pictures) {
    for (int64_t copy = 0; copy < num_copies; ++copy) {
      all.push_back(picture);
      all.back().seed = picture.seed ? plus(*picture.seed, copy) : plus(seed, std::ssize(all) - 1);
    }
  }
  return all;
}

}  // namespace burnish::drawing
