-- What the columns mean stands in docs/guides/audit.md.
CREATE TABLE llm_cache.turns (
	id uuid PRIMARY KEY,
	at timestamptz NOT NULL,
	turns bigint NOT NULL,
	kind text NOT NULL,
	tenant text NOT NULL,
	user_id text NOT NULL,
	user_groups jsonb, -- of the user
	project text NOT NULL DEFAULT '', -- that the client works on
	session text NOT NULL,
	conversation bigint NOT NULL,
	client text NOT NULL,
	model text NOT NULL,
	client_format text NOT NULL,
	upstream_format text NOT NULL,
	policy text NOT NULL,
	stream boolean NOT NULL,
	original_tokens bigint NOT NULL,
	sent_tokens bigint NOT NULL,
	uncached bigint NOT NULL,
	write_5m bigint NOT NULL,
	write_1h bigint NOT NULL,
	read bigint NOT NULL,
	read_estimated bigint NOT NULL DEFAULT 0, -- the part of read that the upstream did not report
	output bigint NOT NULL,
	estimated bigint NOT NULL DEFAULT 0, -- the turns whose tokens are estimates, in whole or in part
	client_uncached bigint NOT NULL,
	client_write_5m bigint NOT NULL,
	client_write_1h bigint NOT NULL,
	client_read bigint NOT NULL,
	cost double precision NOT NULL,
	client_cost double precision NOT NULL,
	usd double precision NOT NULL,
	client_usd double precision NOT NULL,
	assumed_from text NOT NULL DEFAULT '', -- the model whose cache rules stood in for unknown ones
	prices_of text NOT NULL DEFAULT '', -- the model whose prices stood in for unknown ones
	would_save double precision NOT NULL DEFAULT 0, -- by edits that were only computed
	would_save_usd double precision NOT NULL DEFAULT 0,
	billed_model text NOT NULL DEFAULT '', -- the upstream's name of the model, where it is another than the client's
	service text NOT NULL DEFAULT '', -- how the provider served the request, where that has a price of its own
	translation double precision NOT NULL DEFAULT 0, -- saved by the marker that a translation adds
	translation_usd double precision NOT NULL DEFAULT 0,
	bounded boolean NOT NULL DEFAULT false, -- the upstream reported more tokens than there can be
	edits jsonb,
	epoch text NOT NULL,
	reason text NOT NULL,
	folded bigint NOT NULL,
	removed bigint NOT NULL,
	rewritten bigint NOT NULL,
	break text NOT NULL,
	fold_misses bigint NOT NULL DEFAULT 0, -- the signs in a turn that the model has missed folded text
	queue_us bigint NOT NULL,
	first_byte_us bigint NOT NULL,
	first_token_us bigint NOT NULL,
	last_token_us bigint NOT NULL,
	total_us bigint NOT NULL,
	status bigint NOT NULL,
	outcome text NOT NULL,
	stop_reason text NOT NULL,
	resent boolean NOT NULL,
	windows text, -- JSON: the usage windows of a subscription
	fallback text NOT NULL DEFAULT '', -- why the fallback served the turn
	holdout boolean NOT NULL DEFAULT false, -- the session belongs to the control group
	simulated_cost double precision NOT NULL DEFAULT 0, -- of the client's own bytes, where edits were only computed
	rereads bigint NOT NULL DEFAULT 0, -- the part of fold_misses that read a file again
	failed_edits bigint NOT NULL DEFAULT 0, -- the part of fold_misses that did not find its place
	compaction boolean NOT NULL DEFAULT false, -- the client asked for a summary
	break_cost double precision NOT NULL DEFAULT 0 -- of the tokens that the cache lacked at a break, beyond that of reading them
);
CREATE INDEX turns_at ON llm_cache.turns (at);
-- prompt and answer are JSON, compressed by zstd.
CREATE TABLE llm_cache.contents (
	turn uuid PRIMARY KEY REFERENCES llm_cache.turns (id) ON DELETE CASCADE,
	prompt bytea NOT NULL,
	answer bytea NOT NULL
);
