-- The upstream's name of the model, where it is another than the client's.
ALTER TABLE turns ADD COLUMN billed_model TEXT NOT NULL DEFAULT '';
-- How the provider served the request, where that has a price of its own.
ALTER TABLE turns ADD COLUMN service TEXT NOT NULL DEFAULT '';
-- What the marker saved that a translation adds.
ALTER TABLE turns ADD COLUMN translation REAL NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN translation_usd REAL NOT NULL DEFAULT 0;
-- The upstream reported more tokens than there can be.
ALTER TABLE turns ADD COLUMN bounded INTEGER NOT NULL DEFAULT 0;
