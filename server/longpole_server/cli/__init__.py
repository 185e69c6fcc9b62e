"""Commands of the server: each module has `main(arguments) -> exit status`."""
