-- The part of read that the upstream did not report.
ALTER TABLE llm_cache.turns ADD COLUMN read_estimated bigint NOT NULL DEFAULT 0;
