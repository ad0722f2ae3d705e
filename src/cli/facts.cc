#include "cli/facts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string date_of(std::int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc);
}

// One of them; null: it is not there, or these are no facts.
Json in_facts(const std::string& text, const char* name) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json.value(name, Json()) : Json();
}

std::string text_in_facts(const std::string& text, const char* name) {
  const Json found = in_facts(text, name);
  return found.is_string() ? found.get<std::string>() : "";
}

}  // namespace

std::string facts_json(Opened& opened, const MountFacts* mount) {
  const VolumeInfo volume = opened.volume().info();
  const VolumeUsage usage = opened.volume().usage();
  const Store::Space space = opened.store().space();
  const StoreStats stats = opened.store().stats();
  const TreeCounts counts = opened.tree().counts();

  Json json;
  json["label"] = volume.label;
  json["uuid"] = volume.uuid.text();
  json["format_version"] = volume.version;
  json["features"] = {{"compatible", volume.features.compatible},
                      {"read_only", volume.features.read_only},
                      {"incompatible", volume.features.incompatible}};
  json["made_by"] = volume.made_by;
  json["mount_options"] = volume.mount_options;
  if ((volume.features.read_only & kLeaseFeature) != 0) {
    json["lease"] = Json::object();
    if (const auto lease = read_lease(opened.device()); lease && *lease) {
      json["lease"] = {{"held_by", (*lease)->holder.name}, {"since", date_of((*lease)->taken_ns)}, {"renewed", date_of((*lease)->renewed_ns)}};
    }
  }
  json["created"] = date_of(volume.created_ns);
  json["program_version"] = LSMFS_VERSION;
  json["device"] = opened.device().path();
  json["device_bytes"] = volume.device_size.v;
  if (mount) {
    json["mount_point"] = mount->mount_point;
    json["process"] = {{"id", mount->process}, {"namespace", mount->process_namespace}};
    for (const auto& [name, value] : mount->options) std::visit([&, &option = name](const auto& of) { json["options"][option] = of; }, value);
  }
  json["read_only"] = opened.tree().read_only();
  if (const auto failure = opened.volume().failure()) json["stopped_by"] = failure->message();
  json["space"] = {{"total_bytes", space.total.v},
                   {"used_bytes", space.total.v - std::min(space.free.v, space.total.v)},
                   {"free_bytes", space.free.v}};
  json["compression"] = {{"raw_bytes", stats.raw_bytes}, {"stored_bytes", stats.table_bytes}};
  if (stats.table_bytes > 0) {
    json["compression"]["ratio"] = static_cast<double>(stats.raw_bytes) / static_cast<double>(stats.table_bytes);
  }
  json["files"] = {{"regular", counts.regular},
                   {"directories", counts.directories},
                   {"symlinks", counts.symlinks},
                   {"others", counts.others}};
  json["displaced"] = counts.displaced;
  json["removed_trees"] = opened.tree().activity().removed_trees;
  json["levels"] = Json::array();
  for (const auto& level : stats.levels) {
    json["levels"].push_back({{"level", level.level}, {"tables", level.files}, {"bytes", level.bytes.v}});
  }
  json["blobs"] = {{"bytes", stats.blob_bytes}};
  json["memory"] = {{"unwritten_bytes", stats.memtable_bytes}, {"cache_bytes", stats.cache_bytes}};
  json["volume"] = {{"files", usage.files},
                    {"table_bytes", usage.table_total.v},
                    {"table_free_bytes", usage.table_free.v},
                    {"largest_free_bytes", usage.largest_free.v},
                    {"fixed_bytes", usage.fixed_total.v},
                    {"fixed_free_bytes", usage.fixed_free.v}};
  // A path is bytes and JSON is UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::vector<Setting>> lasting_in_facts(const std::string& text) {
  const Json options = in_facts(text, "options");
  if (!options.is_object()) return std::nullopt;
  std::vector<Setting> settings;
  for (const auto& [name, value] : options.items()) {
    if (value.is_boolean()) settings.push_back({name, value.get<bool>()});
    if (value.is_number_unsigned()) settings.push_back({name, value.get<std::uint64_t>()});
    if (value.is_string()) settings.push_back({name, value.get<std::string>()});
  }
  return settings;
}

std::uint64_t process_namespace() {
  struct stat facts {};
  return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

std::optional<pid_t> daemon_in_facts(const std::string& text) {
  const Json process = in_facts(text, "process");
  if (!process.is_object() || process.value("namespace", std::uint64_t{0}) != process_namespace()) return std::nullopt;
  const auto id = process.value("id", std::int64_t{0});
  if (id <= 0 || id > INT32_MAX) return std::nullopt;
  return static_cast<pid_t>(id);
}

std::string device_in_facts(const std::string& text) { return text_in_facts(text, "device"); }
std::string mount_point_in_facts(const std::string& text) { return text_in_facts(text, "mount_point"); }

std::uint64_t device_bytes_in_facts(const std::string& text) {
  const Json bytes = in_facts(text, "device_bytes");
  return bytes.is_number_unsigned() ? bytes.get<std::uint64_t>() : 0;
}

std::optional<std::string> facts_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  std::string out;
  const auto line = [&](std::string_view name, std::string_view value) {
    out += fmt::format("{:<13}{}\n", fmt::format("{}:", name), value);
  };
  const auto at = [&](const char* path) -> const Json& {
    static const Json nothing;
    const Json::json_pointer pointer(path);
    return json.contains(pointer) ? json.at(pointer) : nothing;
  };
  const auto number = [&](const char* path) {
    return at(path).is_number_unsigned() ? at(path).get<std::uint64_t>() : 0;
  };
  const auto word = [&](const char* path) { return at(path).is_string() ? at(path).get<std::string>() : ""; };

  line("device", word("/device"));
  if (!word("/mount_point").empty()) {
    line("mounted at", word("/mount_point") + (at("/read_only") == true ? " (read-only)" : ""));
  }
  if (!word("/stopped_by").empty()) line("stopped by", word("/stopped_by"));
  line("label", word("/label").empty() ? "(none)" : word("/label"));
  line("uuid", word("/uuid"));
  line("version", fmt::format("{}{}", number("/format_version"), word("/made_by").empty() ? "" : ", made by lsmfs " + word("/made_by")));
  line("created", word("/created"));
  if (!word("/mount_options").empty()) line("options", word("/mount_options"));
  if (at("/lease").is_object()) {
    line("lease", word("/lease/held_by").empty() ? "on; nobody has it" : fmt::format("of {} since {}, renewed {}", word("/lease/held_by"), word("/lease/since"), word("/lease/renewed")));
  }
  line("device size", format_size(number("/device_bytes")));
  line("total", format_size(number("/space/total_bytes")));
  line("used", format_size(number("/space/used_bytes")));
  line("free", format_size(number("/space/free_bytes")));
  if (at("/compression/ratio").is_number()) {
    line("compression", fmt::format("{:.2f} ({} in {})", at("/compression/ratio").get<double>(),
                                    format_size(number("/compression/raw_bytes")),
                                    format_size(number("/compression/stored_bytes"))));
  }
  line("files", fmt::format("{} regular, {} directories, {} symlinks, {} others", number("/files/regular"),
                            number("/files/directories"), number("/files/symlinks"), number("/files/others")));
  if (number("/displaced") > 0) line("displaced", fmt::format("{} of these, by renames", number("/displaced")));
  if (number("/removed_trees") > 0) line("removed", fmt::format("{} directories whose space is still to come back", number("/removed_trees")));
  if (at("/levels").is_array()) {
    for (std::size_t i = 0; i < at("/levels").size(); ++i) {
      const std::string prefix = fmt::format("/levels/{}/", i);
      line(fmt::format("level {}", number((prefix + "level").c_str())),
           fmt::format("{} in {} tables", format_size(number((prefix + "bytes").c_str())),
                       number((prefix + "tables").c_str())));
    }
  }
  if (number("/blobs/bytes") > 0) line("blobs", format_size(number("/blobs/bytes")) + " of large files");
  if (number("/memory/unwritten_bytes") > 0) line("in memory", format_size(number("/memory/unwritten_bytes")));
  return out;
}

}  // namespace lsmfs::cli
