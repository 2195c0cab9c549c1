#include "tandem/Support/LLVMPCH.h"
