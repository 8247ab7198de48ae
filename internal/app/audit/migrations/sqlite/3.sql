-- What edits that were only computed would have saved.
ALTER TABLE turns ADD COLUMN would_save REAL NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN would_save_usd REAL NOT NULL DEFAULT 0;
