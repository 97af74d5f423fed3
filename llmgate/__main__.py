"""`python -m llmgate`: the same as the command `llmgate`."""

import signal


def run() -> None:
    """Ctrl-c ends a command there and then, by the system's own doing; whoever has to clean up says so for itself.

    Python looks at a signal between two steps of its own only: one that comes right before a wait for the daemon would
    count when that wait is over.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from llmgate.cli.app import main

    main()


if __name__ == "__main__":
    run()
