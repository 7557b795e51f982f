"""torch_xla.amp.syncfree: `uncompiled` puts torch's own SGD, Adam and AdamW here."""
