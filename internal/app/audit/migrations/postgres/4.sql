-- The signs in a turn that the model has missed folded text.
ALTER TABLE llm_cache.turns ADD COLUMN regret bigint NOT NULL DEFAULT 0;
