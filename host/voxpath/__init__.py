"""Voxpath: a voice agent whose ears are an FPGA."""


def __getattr__(name: str):
    # Not imported at once: the link and the boards use this package where the rest of it is not needed.
    if name == "Conversation":
        from voxpath.conversation import Conversation

        return Conversation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
