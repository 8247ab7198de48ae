-- What edits that were only computed would have saved.
ALTER TABLE llm_cache.turns ADD COLUMN would_save double precision NOT NULL DEFAULT 0;
ALTER TABLE llm_cache.turns ADD COLUMN would_save_usd double precision NOT NULL DEFAULT 0;
