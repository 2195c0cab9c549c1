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

/// The same of two words.
int e;
/// What a word holds.
int f;
// Who has written it.
int g;
/* How it is read. */
int h;
/// By which it is found.
int i;
/// As many as there are words.
int j;
// A word that nobody reads, and somebody's
// own, somebody wrote.
int k;
/// Why it is not read.
int l;
/// Which word is read.
int m;
/// Whose word it is.
int n;
// A word that is no number, computed of so
// many bits, lies half way between words that are read by turns.
int o;
// It has another word than its neighbour.
int p;
/// Whether a word is read before the
/// next one.
static bool isFirst(int word);
// It is told apart from others. Whoever is told of it reads it.
int r;
