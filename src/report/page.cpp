#include "report/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "data/animated_webp.h"
#include "data/image.h"
#include "data/resize.h"
#include "io/files.h"
#include "io/output_file.h"
#include "records/learned_samples.h"
#include "report/assets.h"
#include "report/data_url.h"
#include "report/run_follower.h"
#include "report/strip.h"

namespace burnish::report {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// JSON that means the same inside a script element: nothing in it can end the element, and bytes that are no UTF-8 are replaced.
std::string script_json(const json& value) {
  std::string text;
  for (char c : value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace)) {
    if (c == '<') text += "\\u003c";
    else text += c;
  }
  return text;
}

/// Puts `value` in place of the mark {{name}} at the first place behind `from`; what is put in is not looked at again.
void fill(std::string& html, size_t& from, const std::string& name, std::string_view value) {
  auto mark = "{{" + name + "}}";
  auto at = html.find(mark, from);
  if (at == std::string::npos) throw std::logic_error("page.html lacks the mark " + mark);
  html.replace(at, mark.size(), value);
  from = at + value.size();
}

/// The preview itself as a URL; a picture with a larger side than `limit` is scaled down and becomes WebP. Files that play stay as they
/// are.
std::string url_of(const fs::path& path, records::PreviewKind kind, int64_t limit) {
  using Kind = records::PreviewKind;
  const bool plays = kind == Kind::mp4 || kind == Kind::webm || (kind == Kind::webp && data::num_frames_of_webp(path) > 1);
  if (plays) return data_url(records::media_type(kind), io::read_text(path));
  auto size = data::image_size(path);
  if (limit == 0 || data::within(size, limit) == size) return data_url(records::media_type(kind), io::read_text(path));
  constexpr float kQuality = 85;
  return data_url("image/webp", data::encode_webp(data::resize_and_crop(data::decode_image(path), data::within(size, limit)), kQuality));
}

/// Lists the samples of a run that stand out by their losses; none of a run that logged no visits.
json stand_out(const fs::path& run) {
  auto list = json::array();
  if (!io::is_there(records::visits_path(run))) return list;
  try {
    for (const auto& one : records::learned_samples(run).all)
      if (one.stands_out()) list.push_back(to_json(one));
  } catch (const Error& error) {
    warn("left out: {}", error.what());
  }
  return list;
}

}  // namespace

std::string page(const json& runs, bool live, const std::string& further_script) {
  std::string html(kHtml);
  size_t from = 0;
  fill(html, from, "css", kCss);
  fill(html, from, "data", script_json({{"live", live}, {"runs", runs}}));
  fill(html, from, "script", kScript);
  fill(html, from, "further", further_script.empty() ? "" : fmt::format("<script type=\"module\" src=\"{}\"></script>", further_script));
  return html;
}

bool is_page(const fs::path& path) {
  return io::read_text(path).substr(0, 1000).find("<meta name=\"generator\" content=\"burnish\">") != std::string::npos;
}

fs::path write_report(const ReportOptions& options) {
  if (options.runs.empty()) config_error("report", "no run given; name its folder, for example: burnish report runs/cat");
  if (options.picture_size < 0) config_error("report", "picture_size must be at least 0, not {}", options.picture_size);
  auto path = options.output.empty() ? fs::path(options.runs[0]) / "report.html" : fs::path(options.output);
  if (options.output.empty()) io::check_replaces("report", path, is_page);
  else io::check_output("report", path, ".html", is_page);
  for (const auto& run : options.runs) check_run(run, /*may_begin=*/false);
  auto names = run_names(options.runs);
  auto runs = json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    auto link = [&](const fs::path& file, const records::Preview& preview) { return url_of(file, preview.kind, options.picture_size); };
    auto strip = [](const fs::path& clip, const records::Preview&) { return data_url("image/webp", strip_of(clip)); };
    runs.push_back(RunFollower(options.runs[i], names[i], link, strip).next());
    runs.back()["stand_out"] = stand_out(options.runs[i]);
  }
  io::write_text_atomic(path, page(runs, /*live=*/false));
  return path;
}

}  // namespace burnish::report
