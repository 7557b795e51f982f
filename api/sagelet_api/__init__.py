"""The faces of sagelet: AWS protocols and the command line. They call the engine, never the reverse."""
