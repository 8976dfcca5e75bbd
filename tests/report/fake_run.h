#pragma once
#include <ATen/ops/full.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "data/animated_webp.h"
#include "data/drawn_file.h"
#include "data/image.h"
#include "io/told_file.h"
#include "records/previews.h"
#include "records/status.h"

// A folder that looks like that of a run.
namespace burnish::test {

inline std::string log_line(int64_t step, double loss) {
  return nlohmann::json{{"step", step}, {"loss", loss}, {"lr", 1e-4}, {"time", 1e9 + static_cast<double>(step)}}.dump() + "\n";
}

inline void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

inline void draw_preview(const std::filesystem::path& run, int64_t step, const std::string& prompt, int64_t side = 8) {
  auto gray = at::full({side, side, 3}, static_cast<double>(step % 200), at::TensorOptions().dtype(at::kByte));
  data::write_png(records::preview_path(run, step, 0), gray, {{"prompt", prompt}});
}

/// A clip of two frames, which differ, as libwebp makes one of equal ones.
inline void draw_clip(const std::filesystem::path& run, int64_t step, int64_t number, const std::string& prompt) {
  auto path = records::preview_path(run, step, number, records::PreviewKind::webp);
  std::filesystem::create_directories(path.parent_path());
  auto frames = at::full({3, 2, 8, 8}, 90, at::TensorOptions().dtype(at::kByte));
  frames.select(1, 1).fill_(200);
  data::write_webp(path, frames, 16, {{"prompt", prompt}});
}

/// A video of three frames, or a folder of them.
inline void draw_video(const std::filesystem::path& run, int64_t step, int64_t number, records::PreviewKind kind,
                       const std::string& prompt) {
  auto path = records::preview_path(run, step, number, kind);
  std::filesystem::create_directories(path.parent_path());
  data::write_drawn(records::preview_path(run, step, number, records::PreviewKind::frames),
                    kind == records::PreviewKind::frames ? "png" : path.extension().string().substr(1),
                    at::full({3, 3, 32, 48}, 90, at::TensorOptions().dtype(at::kByte)), 8, {{"prompt", prompt}, {"frame_rate", "8"}});
}

inline void make_run(const std::filesystem::path& run, int64_t num_steps, int64_t rank = 16) {
  std::filesystem::create_directories(run);
  std::ofstream(run / "config.toml") << "# Adapters\nlora_rank = " << rank << "  # rank\n";
  for (int64_t step = 1; step <= num_steps; ++step) append(run / "log.jsonl", log_line(step, 1.0 / static_cast<double>(step)));
  draw_preview(run, 0, "</script><script>alert('a fox')</script>");
}

/// The status of a run that this process does.
inline void write_status(const std::filesystem::path& run, records::Status status) {
  status.process = records::own_process();
  std::filesystem::create_directories(run);
  io::tell(records::status_path(run), records::to_json(status).dump());
}

}  // namespace burnish::test
