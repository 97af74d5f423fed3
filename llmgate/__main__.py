"""`python -m llmgate`: the same as the command `llmgate`."""

from llmgate.cli.app import main

if __name__ == "__main__":
    main()
