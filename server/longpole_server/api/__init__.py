"""The HTTP API: routes, documents, access, errors in one form."""
