"""The AWS protocols, the pages and the command line of sagelet. They call the engine, never the reverse."""
