"""What stands for a process that has ended, where tests do its work themselves."""


class Done:
    """A process that has ended."""

    def __init__(self, code: int) -> None:
        self.code = code

    def poll(self) -> int:
        return self.code

    def terminate(self) -> None: ...

    def wait(self, timeout: float | None = None) -> None: ...
