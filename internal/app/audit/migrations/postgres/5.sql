-- The turns whose tokens are estimates, in whole or in part.
ALTER TABLE llm_cache.turns ADD COLUMN estimated bigint NOT NULL DEFAULT 0;
