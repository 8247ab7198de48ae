-- The turns whose tokens are estimates, in whole or in part.
ALTER TABLE turns ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
