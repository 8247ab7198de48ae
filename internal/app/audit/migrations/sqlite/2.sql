-- The part of read that the upstream did not report.
ALTER TABLE turns ADD COLUMN read_estimated INTEGER NOT NULL DEFAULT 0;
