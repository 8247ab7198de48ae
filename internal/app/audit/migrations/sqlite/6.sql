-- The model whose prices stood in for unknown ones.
ALTER TABLE turns ADD COLUMN prices_of TEXT NOT NULL DEFAULT '';
