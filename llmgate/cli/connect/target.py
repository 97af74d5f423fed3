"""What a client must know of the gate: where it is, which model, and how long to be patient."""

import os
from dataclasses import dataclass

ANSWER_SECONDS = 1800
"""What an answer may take once its request has a slot; the wait comes on top."""

LONGEST_MS = 2_147_483_647
"""The longest timer of Node, 24 days: more than that fires at once."""

NO_KEY = "llmgate"
"""Any text will do while the gate asks for no key; most clients want one all the same."""

KEY_TO_FILL_IN = "YOUR-LLMGATE-KEY"
KEY_VARIABLE = "LLMGATE_API_KEY"
NO_KEY_STATUS = 401


def key_advice() -> str:
    """What goes on after the gate's complaint of a key: a second line, which says where a command takes it from."""
    what = f"the key in {KEY_VARIABLE} does not count there" if os.environ.get(KEY_VARIABLE) else "this gate has keys"
    return f"\nllmgate: {what}: put one of its keys_file into the environment, as {KEY_VARIABLE}"


@dataclass(frozen=True)
class Target:
    """`root` is the base URL without /v1, such as http://127.0.0.1:8080/llm."""

    root: str
    model: str = "MODEL"
    queue_timeout: float | None = None
    """Seconds, of the upstream that lets wait longest; None = for ever."""
    key_needed: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None
    fingerprint: str = ""
    """SHA-256 of the certificate that the daemon says it shows; "" = it told none."""

    @property
    def openai(self) -> str:
        """The base URL for clients of OpenAI's protocols, which put no /v1 before their paths."""
        return f"{self.root}/v1"

    @property
    def key(self) -> str:
        return KEY_TO_FILL_IN if self.key_needed else NO_KEY

    @property
    def patience(self) -> int:
        """Seconds that a client must be ready to wait for its answer, in silence if it takes comments for that."""
        return self.patience_ms // 1000

    @property
    def patience_ms(self) -> int:
        if self.queue_timeout is None:
            return LONGEST_MS
        return min(LONGEST_MS, round((self.queue_timeout + ANSWER_SECONDS) * 1000))

    @property
    def for_ever(self) -> bool:
        """Whether the wait has no end that could be put into a timeout."""
        return self.patience_ms == LONGEST_MS
