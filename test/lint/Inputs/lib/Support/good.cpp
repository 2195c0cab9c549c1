/// The word after the flags, which is left alone, since it is read
/// Of two parts.
int behind; // A curtain hides what is behind.
/// Offset of the word, not one but for each lane.
int offset;
/// Whatever a word holds, it is read.
int word;
/// The word says what it holds,
/// how it is read, and who has written it.
int value; // The body of some nobodyless loop.
/// However many words there are, they are read.
int count;
/// Returns whether a word is read.
bool isRead(int word);
/// Whether the first word was read.
bool wasRead;
