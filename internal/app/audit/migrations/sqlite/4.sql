-- The signs in a turn that the model has missed folded text.
ALTER TABLE turns ADD COLUMN regret INTEGER NOT NULL DEFAULT 0;
