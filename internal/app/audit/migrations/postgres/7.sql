-- The upstream's name of the model, where it is another than the client's.
ALTER TABLE llm_cache.turns ADD COLUMN billed_model text NOT NULL DEFAULT '';
-- How the provider served the request, where that has a price of its own.
ALTER TABLE llm_cache.turns ADD COLUMN service text NOT NULL DEFAULT '';
-- What the marker saved that a translation adds.
ALTER TABLE llm_cache.turns ADD COLUMN translation double precision NOT NULL DEFAULT 0;
ALTER TABLE llm_cache.turns ADD COLUMN translation_usd double precision NOT NULL DEFAULT 0;
-- The upstream reported more tokens than there can be.
ALTER TABLE llm_cache.turns ADD COLUMN bounded boolean NOT NULL DEFAULT false;
