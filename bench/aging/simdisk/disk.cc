#include "simdisk/disk.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lsmfs::simdisk {

namespace {

// What takes longer must not keep other requests from being seen.
constexpr std::uint64_t kInlineMax = 64 * KiB;

}  // namespace

Disk::Disk(Backing& backing, Workers& workers, const DiskOptions& options)
    : backing_(backing), workers_(workers), options_(options), model_(options.profile), trace_(options.trace_limit) {}

void Disk::submit(std::shared_ptr<Job> job) {
  const bool idle = !current_ && queue_.empty();
  if (idle && profile() == Profile::none) {
    finish_ = {};
    begin(*job);
    const bool quick = job->request.length.v <= kInlineMax && !(job->request.kind == Kind::flush && options_.sync);
    if (fresh_ || !quick) {
      serve_fresh();
      serve_elsewhere(std::move(job));
    } else {
      fresh_ = std::move(job);
    }
    return;
  }
  job->arrival -= options_.path;
  if (!idle) give_away(job);  // there is time before its turn
  const Request request = job->request;
  const Nanos arrival = job->arrival;
  queue_.push(request, arrival, std::move(job));
}

void Disk::finish_due() {
  if (!current_ || now() < finish_) return;
  const JobPtr job = std::move(current_);
  job->performed.wait(false);
  late_ += now() - finish_;
  job->answer(*job, job->error);
}

std::optional<Nanos> Disk::next() {
  if (const JobPtr job = std::exchange(fresh_, nullptr)) {
    perform(*job);
    job->answer(*job, job->error);
  }
  if (!current_) {
    if (queue_.empty()) return std::nullopt;
    current_ = queue_.pop(model_.position(), finish_);
    finish_ = begin(*current_);
    if (!current_->given_away) now() < finish_ ? give_away(current_) : perform(*current_);
  }
  return finish_;
}

void Disk::give_away(JobPtr job) {
  job->given_away = true;
  workers_.submit([this, job = std::move(job)] { perform(*job); });
}

void Disk::serve_elsewhere(JobPtr job) {
  workers_.submit([this, job = std::move(job)] {
    perform(*job);
    job->answer(*job, job->error);
  });
}

void Disk::serve_fresh() {
  if (fresh_) serve_elsewhere(std::exchange(fresh_, nullptr));
}

void Disk::give_up() {
  if (const JobPtr job = std::exchange(fresh_, nullptr)) job->answer(*job, EIO);
  while (current_ || !queue_.empty()) {
    const JobPtr job = current_ ? std::move(current_) : queue_.pop(model_.position(), finish_);
    job->answer(*job, EIO);
  }
}

Nanos Disk::begin(const Job& job) {
  const Nanos service = model_.service(job.request);
  const Nanos moment = std::max(job.arrival, finish_);
  counters_.note(job.request, service);
  trace_.add(moment, job.request, service);
  return moment + service;
}

void Disk::perform(Job& job) {
  const auto done = [&]() -> Result<void> {
    switch (job.request.kind) {
      case Kind::read:
        return backing_.read(job.request.offset, job.data);
      case Kind::write:
        return backing_.write(job.request.offset, job.data);
      case Kind::flush:
        return options_.sync ? backing_.flush() : Result<void>();
      case Kind::discard:
        return backing_.discard(job.request.offset, job.request.length);
    }
    return {};
  }();
  job.error = done ? 0 : done.error().code;
  job.performed = true;
  job.performed.notify_one();
}

std::string Disk::stats() const {
  nlohmann::ordered_json all{{"profile", name_of(profile())}};
  all.update(to_json(counters_));
  all["late_seconds"] = seconds_of(late_);
  return all.dump() + "\n";
}

}  // namespace lsmfs::simdisk
