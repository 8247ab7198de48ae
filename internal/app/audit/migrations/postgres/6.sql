-- The model whose prices stood in for unknown ones.
ALTER TABLE llm_cache.turns ADD COLUMN prices_of text NOT NULL DEFAULT '';
