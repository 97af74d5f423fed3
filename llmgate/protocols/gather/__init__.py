"""Puts the answer of a request that asked for no stream together from the stream that the upstream was asked for."""
