"""The command line: one file a command family. Heavy imports stand inside the commands, so that `--help` is quick."""
