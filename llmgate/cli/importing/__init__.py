"""Settings of other programs, read and told as settings of ours: one file a program, each a pure function."""
