#include "store.h"

#ifdef DEBUG
const struct store_calls *store_calls;
#else
const struct store_calls *const store_calls = NULL;
#endif
