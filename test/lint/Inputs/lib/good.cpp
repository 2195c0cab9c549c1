int a; // The word behind the flags.
