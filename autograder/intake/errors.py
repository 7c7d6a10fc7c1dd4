"""What stops a whole inbox; what is wrong with one submission is that submission's problem."""


class InboxError(ValueError):
    """The inbox or the roster can't be used; the text says why and what to do."""


class EmptyInbox(InboxError):
    """The inbox does not exist or holds no submission."""


class RosterError(InboxError):
    """The roster can't be used; the text names file, line and what is expected."""
