// What users of a volume hold: a writer or a reader of one file. Each keeps the file and what the
// files share alive, also after the file has lost its name. And which kind of file there is to be.
#pragma once

#include <memory>

#include "volume/file.h"
#include "volume/shared.h"

namespace lsmfs {

// A TableFile or a LogFile. `fresh`: it has just been created, nothing can be on the device.
std::shared_ptr<File> make_file(Shared& shared, const FileRecord& record, bool fresh);

// `file` must have been taken with take_writer().
std::unique_ptr<FileWriter> make_writer(std::shared_ptr<Shared> shared, std::shared_ptr<File> file);
Result<std::unique_ptr<FileReader>> make_reader(std::shared_ptr<Shared> shared, std::shared_ptr<File> file);

}  // namespace lsmfs
