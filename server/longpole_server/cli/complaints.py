"""What commands say of what went wrong."""

from longpole_server.errors import ServerError


def describe(error: ServerError) -> str:
    """Return an error in one line."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
