/// Of two components.
int a;
/// That of the first word, but
/// for its sign.
int b;

// The word behind
// the flags stands in front of the records.
int c;
// Depends on bytes alone. They are read as they stand.
int d;
