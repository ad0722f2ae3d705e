// A fault that several engines must find: nobody seems to use a base, so that it is changed and dropped while somebody does.
#pragma once

#include "kv/store_decorator.h"
#include "tree/keys.h"

namespace lsmfs::test {

class HidesUsers : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    CursorOptions none = options;
    if (family == Family::names && options.lower.starts_with(keys::kUserPrefix)) none.upper = none.lower;
    return inner().cursor(family, none);
  }
};

}  // namespace lsmfs::test
