// The one place that chooses libfuse's API version, so that all files of the layer agree on it.
#pragma once

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>
