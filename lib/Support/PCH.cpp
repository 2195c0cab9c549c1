#include "tandem/Support/PCH.h"
