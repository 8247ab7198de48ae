-- What the columns mean stands in docs/guides/audit.md. Times are UTC, as SQLite's date
-- functions read them.
CREATE TABLE turns (
	id TEXT PRIMARY KEY,
	at TEXT NOT NULL,
	turns INTEGER NOT NULL,
	kind TEXT NOT NULL,
	tenant TEXT NOT NULL,
	user_id TEXT NOT NULL,
	user_groups TEXT, -- of the user, as JSON
	project TEXT NOT NULL DEFAULT '', -- that the client works on
	session TEXT NOT NULL,
	conversation INTEGER NOT NULL,
	client TEXT NOT NULL,
	model TEXT NOT NULL,
	client_format TEXT NOT NULL,
	upstream_format TEXT NOT NULL,
	policy TEXT NOT NULL,
	stream INTEGER NOT NULL,
	original_tokens INTEGER NOT NULL,
	sent_tokens INTEGER NOT NULL,
	uncached INTEGER NOT NULL,
	write_5m INTEGER NOT NULL,
	write_1h INTEGER NOT NULL,
	read INTEGER NOT NULL,
	read_estimated INTEGER NOT NULL DEFAULT 0, -- the part of read that the upstream did not report
	output INTEGER NOT NULL,
	estimated INTEGER NOT NULL DEFAULT 0, -- the turns whose tokens are estimates, in whole or in part
	client_uncached INTEGER NOT NULL,
	client_write_5m INTEGER NOT NULL,
	client_write_1h INTEGER NOT NULL,
	client_read INTEGER NOT NULL,
	cost REAL NOT NULL,
	client_cost REAL NOT NULL,
	usd REAL NOT NULL,
	client_usd REAL NOT NULL,
	assumed_from TEXT NOT NULL DEFAULT '', -- the model whose cache rules stood in for unknown ones
	prices_of TEXT NOT NULL DEFAULT '', -- the model whose prices stood in for unknown ones
	would_save REAL NOT NULL DEFAULT 0, -- by edits that were only computed
	would_save_usd REAL NOT NULL DEFAULT 0,
	billed_model TEXT NOT NULL DEFAULT '', -- the upstream's name of the model, where it is another than the client's
	service TEXT NOT NULL DEFAULT '', -- how the provider served the request, where that has a price of its own
	translation REAL NOT NULL DEFAULT 0, -- saved by the marker that a translation adds
	translation_usd REAL NOT NULL DEFAULT 0,
	bounded INTEGER NOT NULL DEFAULT 0, -- the upstream reported more tokens than there can be
	edits TEXT,
	epoch TEXT NOT NULL,
	reason TEXT NOT NULL,
	folded INTEGER NOT NULL,
	removed INTEGER NOT NULL,
	rewritten INTEGER NOT NULL,
	break TEXT NOT NULL,
	fold_misses INTEGER NOT NULL DEFAULT 0, -- the signs in a turn that the model has missed folded text
	queue_us INTEGER NOT NULL,
	first_byte_us INTEGER NOT NULL,
	first_token_us INTEGER NOT NULL,
	last_token_us INTEGER NOT NULL,
	total_us INTEGER NOT NULL,
	status INTEGER NOT NULL,
	outcome TEXT NOT NULL,
	stop_reason TEXT NOT NULL,
	resent INTEGER NOT NULL,
	windows TEXT, -- JSON: the usage windows of a subscription
	fallback TEXT NOT NULL DEFAULT '', -- why the fallback served the turn
	holdout INTEGER NOT NULL DEFAULT 0, -- the session belongs to the control group
	simulated_cost REAL NOT NULL DEFAULT 0, -- of the client's own bytes, where edits were only computed
	rereads INTEGER NOT NULL DEFAULT 0, -- the part of fold_misses that read a file again
	failed_edits INTEGER NOT NULL DEFAULT 0, -- the part of fold_misses that did not find its place
	compaction INTEGER NOT NULL DEFAULT 0, -- the client asked for a summary
	break_cost REAL NOT NULL DEFAULT 0 -- of the tokens that the cache lacked at a break, beyond that of reading them
) WITHOUT ROWID;
CREATE INDEX turns_at ON turns (at);
-- prompt and answer are JSON, compressed by zstd.
CREATE TABLE contents (
	turn TEXT PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
	prompt BLOB NOT NULL,
	answer BLOB NOT NULL
);
