// A device that passes everything on to another: what decorators are made of, each of which changes some of it.
#pragma once

#include "lsmfs/device.h"

namespace lsmfs {

// `Interface`: Device, or what is one and more.
template <class Interface>
class DecoratorOf : public Interface {
 public:
  explicit DecoratorOf(Device& inner) : inner_(inner) {}

  Result<void> read(ByteOffset from, MutableBytes to) override { return inner_.read(from, to); }
  Result<void> write(ByteOffset to, Bytes data) override { return inner_.write(to, data); }
  Result<void> flush() override { return inner_.flush(); }
  Result<void> discard(ByteOffset from, ByteCount length) override { return inner_.discard(from, length); }
  ByteCount size() const override { return inner_.size(); }
  Result<void> set_size(ByteCount size) override { return inner_.set_size(size); }
  Result<void> look_again() override { return inner_.look_again(); }
  bool writable() const override { return inner_.writable(); }
  bool is_block_device() const override { return inner_.is_block_device(); }
  const std::string& path() const override { return inner_.path(); }
  int descriptor() const override { return inner_.descriptor(); }

 protected:
  Device& inner_;
};
using DeviceDecorator = DecoratorOf<Device>;

}  // namespace lsmfs
