/// The word after the flags, which is left alone, since it is read
/// Of two parts.
int behind; // A curtain hides what is behind.
/// Offset of the word, not one but for each lane.
int offset;
