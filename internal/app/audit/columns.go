// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// columns are the columns of the table of turns in every database, in the order of values and targets.
var columns = []string{
	"id", "at", "turns", "kind", "tenant", "user_id", "user_groups", "project", "session", "conversation", "client", "model", "client_format",
	"upstream_format",
	"policy", "stream", "original_tokens", "sent_tokens",
	"uncached", "write_5m", "write_1h", "read", "read_estimated", "output", "estimated", "client_uncached",
	"client_write_5m", "client_write_1h", "client_read",
	"cost", "client_cost", "usd", "client_usd", "assumed_from", "prices_of", "would_save", "would_save_usd",
	"billed_model", "service", "translation", "translation_usd", "bounded",
	"edits", "epoch", "reason", "folded", "removed", "rewritten", "break", "fold_misses",
	"queue_us", "first_byte_us", "first_token_us", "last_token_us", "total_us",
	"status", "outcome", "stop_reason", "resent", "windows", "fallback",
	"holdout", "simulated_cost", "rereads", "failed_edits", "compaction", "break_cost",
}

var columnList = strings.Join(columns, ", ")

// values returns the values of a record's columns. Databases have ids and times of their own.
func (r *Record) values(id, at any) []any {
	var edits any // NULL
	if len(r.Edits) > 0 {
		b, _ := json.Marshal(r.Edits) // strings and numbers: it never fails
		edits = string(b)
	}
	var groups any // NULL
	if len(r.Groups) > 0 {
		b, _ := json.Marshal(r.Groups)
		groups = string(b)
	}
	b, c := &r.Billed, &r.ClientBilled
	return []any{
		id, at, r.Turns, r.Kind, r.Tenant, r.User, groups, r.Project, r.Session, int64(r.Conversation), r.Client, r.Model, r.ClientFormat,
		r.UpstreamFormat,
		r.Policy, r.Stream, r.OriginalTokens, r.SentTokens,
		b.Uncached, b.Write5m, b.Write1h, b.Read, r.ReadEstimated, b.Output, r.Estimated, c.Uncached, c.Write5m, c.Write1h,
		c.Read,
		r.Cost, r.ClientCost, r.USD, r.ClientUSD, r.AssumedFrom, r.PricesOf, r.WouldSave, r.WouldSaveUSD,
		r.BilledModel, r.Service, r.Translation, r.TranslationUSD, r.Bounded,
		edits, r.Epoch, r.Reason, r.Folded, r.Removed, r.Rewritten, r.Break, int64(r.FoldMisses),
		r.Queue.Microseconds(), r.FirstByte.Microseconds(), r.FirstToken.Microseconds(), r.LastToken.Microseconds(),
		r.Total.Microseconds(),
		int64(r.Status), r.Outcome, r.StopReason, r.Resent, r.Windows.Text(), r.Fallback,
		r.Holdout, r.SimulatedCost, int64(r.Rereads), int64(r.FailedEdits), r.Compaction, float64(r.BreakCost),
	}
}

func (r *Record) targets(id, at any) []any {
	b, c := &r.Billed, &r.ClientBilled
	return []any{
		id, at, &r.Turns, &r.Kind, &r.Tenant, &r.User, (*list[string])(&r.Groups), &r.Project, &r.Session, &r.Conversation, &r.Client, &r.Model, &r.ClientFormat,
		&r.UpstreamFormat,
		&r.Policy, &r.Stream, &r.OriginalTokens, &r.SentTokens,
		&b.Uncached, &b.Write5m, &b.Write1h, &b.Read, &r.ReadEstimated, &b.Output, &r.Estimated, &c.Uncached, &c.Write5m,
		&c.Write1h, &c.Read,
		&r.Cost, &r.ClientCost, &r.USD, &r.ClientUSD, &r.AssumedFrom, &r.PricesOf, &r.WouldSave, &r.WouldSaveUSD,
		&r.BilledModel, &r.Service, &r.Translation, &r.TranslationUSD, &r.Bounded,
		(*list[Edits])(&r.Edits), &r.Epoch, &r.Reason, &r.Folded, &r.Removed, &r.Rewritten, &r.Break, &r.FoldMisses,
		(*micros)(&r.Queue), (*micros)(&r.FirstByte), (*micros)(&r.FirstToken), (*micros)(&r.LastToken), (*micros)(&r.Total),
		&r.Status, &r.Outcome, &r.StopReason, &r.Resent, &r.Windows, &r.Fallback,
		&r.Holdout, &r.SimulatedCost, &r.Rereads, &r.FailedEdits, &r.Compaction, &r.BreakCost,
	}
}

// micros is a duration that databases store in microseconds.
type micros time.Duration

// Scan implements sql.Scanner.
func (m *micros) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("audit: %T is no number of microseconds", v)
	}
	*m = micros(n) * micros(time.Microsecond)
	return nil
}

// list is a list that databases store as JSON, or as NULL if it is empty.
type list[T any] []T

// Scan implements sql.Scanner.
func (l *list[T]) Scan(v any) error {
	*l = nil
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), l)
	case []byte:
		return json.Unmarshal(v, l)
	}
	return fmt.Errorf("audit: %T is no list", v)
}

// definition returns the definition of a column of the table of turns in a schema, which stands on a line of
// its own.
func definition(schema, column string) string {
	_, def, _ := strings.Cut(schema, "\n\t"+column+" ")
	def, _, _ = strings.Cut(def, "\n")
	def, _, _ = strings.Cut(def, "--")
	return column + " " + strings.TrimRight(def, ", ")
}
