#include "hub/s3_listing.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "base/input_error.h"
#include "base/number.h"

namespace burnish::hub {

namespace {

/// Takes what stands in the next element of this name, from `place` on, which moves behind it.
std::optional<std::string_view> element(std::string_view xml, const std::string& name, size_t& place) {
  const auto opening = "<" + name + ">", closing = "</" + name + ">";
  const auto begin = xml.find(opening, place);
  const auto end = begin == xml.npos ? begin : xml.find(closing, begin);
  if (end == xml.npos) return std::nullopt;
  place = end + closing.size();
  return xml.substr(begin + opening.size(), end - begin - opening.size());
}

/// Resolves the five entities that XML knows of itself.
std::string plain(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {{"&amp;", '&'},   {"&lt;", '<'},  {"&gt;", '>'},  {"&quot;", '"'},
                                                             {"&apos;", '\''}, {"&#34;", '"'}, {"&#39;", '\''}};
  std::string all;
  while (!text.empty()) {
    bool is_entity = false;
    for (const auto& [entity, letter] : kEntities) {
      if (!text.starts_with(entity)) continue;
      all += letter;
      text.remove_prefix(entity.size());
      is_entity = true;
      break;
    }
    if (is_entity) continue;
    all += text.front();
    text.remove_prefix(1);
  }
  return all;
}

std::string first_of(std::string_view xml, const std::string& name) {
  size_t place = 0;
  const auto found = element(xml, name, place);
  return found ? plain(*found) : "";
}

/// Resolves %XX, and + for a blank.
std::string url_decoded(const std::string& text) {
  std::string all;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const bool is_code = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16).ptr == text.data() + i + 3;
    if (is_code) i += 2;
    all += is_code ? static_cast<char>(code) : text[i] == '+' ? ' ' : text[i];
  }
  return all;
}

}  // namespace

S3Page read_s3_page(const std::string& xml) {
  if (xml.find("<ListBucketResult") == xml.npos)
    data_error("hub", "the answer to the question for a bucket's objects is no list of S3: check the address in AWS_ENDPOINT_URL");
  S3Page page;
  size_t place = 0;
  while (const auto one = element(xml, "Contents", place)) {
    const auto size = parse_number<int64_t>(first_of(*one, "Size"));
    auto tag = first_of(*one, "ETag");
    std::erase(tag, '"');
    if (!size) data_error("hub", "a bucket lists an object without its size; an S3 that speaks ListObjectsV2 was expected");
    page.objects.push_back({url_decoded(first_of(*one, "Key")), *size, tag});
  }
  if (first_of(xml, "IsTruncated") == "true") page.next = first_of(xml, "NextContinuationToken");
  return page;
}

std::string s3_problem(const std::string& xml) {
  const auto code = first_of(xml, "Code"), message = first_of(xml, "Message");
  return code.empty() || message.empty() ? code + message : code + ": " + message;
}

}  // namespace burnish::hub
