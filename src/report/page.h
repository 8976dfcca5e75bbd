#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace burnish::report {

/// The page: HTML that asks for nothing from elsewhere. `runs` are values of RunFollower::next; a live page gets them, and what follows
/// them, from "events". `further_script` is the address of a script of the server that shows it; "" for none.
std::string page(const nlohmann::json& runs, bool live, const std::string& further_script = "");

/// Tells whether a file is a page that this room wrote.
bool is_page(const std::filesystem::path& path);

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;          ///< "" is report.html in the first run
  int64_t picture_size = 512;  ///< larger sides are scaled down; 0 leaves pictures as they are
};

/// Writes one page about the runs and returns its path. A config Error without a run, and for an output that is no page (io::check_output);
/// a data Error for what is no run.
std::filesystem::path write_report(const ReportOptions& options);

}  // namespace burnish::report
