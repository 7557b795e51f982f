"""Jobs against each other, native against compiled: pure rules on frozen facts."""
